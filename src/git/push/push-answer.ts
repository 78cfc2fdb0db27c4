/** What git's own answer to a push says of this server. */

import { limitReached } from '../../errors/limits.ts'
import { diskFull, isDiskFull } from '../../storage/disk-full.ts'
import { bandPackets } from '../http/pkt-line.ts'
import { NO_MEMORY } from '../process/child-process.ts'
import type { PushRequest } from './push-request.ts'

/** Where in the answer such a reason is. */
const MAX_REASON = 64 * 1024
const UNPLACED = / unable to migrate objects to permanent storage\n/

/**
 * Whether git could not move the objects of the push to their place. It reports this of each ref and moves none. The reason
 * is nearly always a repack: it removes directories of loose objects that are empty, also one that git has just made for
 * these objects.
 */
export function isMigrationFailure(answer: Buffer): boolean {
  return UNPLACED.test(beginningOf(answer))
}

/** What git says of a program of its own that could not go on, and what its user should read of it. */
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

/** The answer to a push that needed too much memory or room shows only that a program of git ended. This one says why. */
export function withReason(answer: Buffer, { capabilities }: Pick<PushRequest, 'capabilities'>): Buffer {
  if (!capabilities.has('side-band-64k')) return answer
  const beginning = beginningOf(answer)
  const found = REASONS.find(({ says }) => says(beginning))
  if (found === undefined) return answer
  limitReached(found.limit)
  return Buffer.concat([bandPackets(2, Buffer.from(`${found.reason}\n`)), answer])
}

const beginningOf = (answer: Buffer) => answer.toString('latin1', 0, MAX_REASON)
