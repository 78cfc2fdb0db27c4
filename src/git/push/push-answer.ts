/** Recognizes server failures in git's own answer to a push. */

import { limitReached } from '../../errors/limits.ts'
import { diskFull, isDiskFull } from '../../storage/disk-full.ts'
import { bandPackets } from '../http/pkt-line.ts'
import { NO_MEMORY } from '../process/child-process.ts'
import type { PushRequest } from './push-request.ts'

/** Length of the searched beginning of an answer, in bytes. */
const MAX_SEARCHED = 64 * 1024
const UNPLACED = / unable to migrate objects to permanent storage\n/

/**
 * Whether git failed to move the objects of the push out of the quarantine. It reports this for each ref and moves none.
 * The cause is nearly always a repack: it removes empty directories of loose objects, even one that git has just created
 * for these objects.
 */
export function isMigrationFailure(answer: Buffer): boolean {
  return UNPLACED.test(beginningOf(answer))
}

/** Failures of git's programs, with the reason for the user. */
const REASONS = [
  {
    says: (beginning: string) => NO_MEMORY.test(beginning),
    limit: 'git_memory',
    reason: 'the push needs more memory than this server gives to a git process',
  },
  {
    says: (beginning: string) => isDiskFull(new Error(beginning)),
    limit: 'disk_full',
    reason: diskFull.message,
  },
] as const

/**
 * Adds the reason to the answer of a push that exceeded memory or disk space: git only reports that one of its programs
 * ended.
 */
export function withReason(answer: Buffer, { capabilities }: Pick<PushRequest, 'capabilities'>): Buffer {
  if (!capabilities.has('side-band-64k')) return answer
  const beginning = beginningOf(answer)
  const found = REASONS.find(({ says }) => says(beginning))
  if (found === undefined) return answer
  limitReached(found.limit)
  return Buffer.concat([bandPackets(2, Buffer.from(`${found.reason}\n`)), answer])
}

const beginningOf = (answer: Buffer) => answer.toString('latin1', 0, MAX_SEARCHED)
