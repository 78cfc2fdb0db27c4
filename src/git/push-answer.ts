/** What git's own answer to a push says of this server. */
import { limitReached } from '../limits.ts'
import { NO_MEMORY } from './child-process.ts'
import { bandPackets } from './pkt-line.ts'
import type { PushRequest } from './push-request.ts'

/** Where in the answer such a reason is. */
const MAX_REASON = 64 * 1024
const UNPLACED = / unable to migrate objects to permanent storage\n/

/**
 * Whether git could not move the objects of the push to their place. It reports this of each ref and moves none. The reason
 * is nearly always a repack: it removes directories of loose objects that are empty, also one that git has just made for
 * these objects.
 */
export function saysUnplaced(answer: Buffer): boolean {
  return UNPLACED.test(beginningOf(answer))
}

/** The answer to a push that needed too much memory shows only that a program of git ended. This one says why. */
export function withReason(answer: Buffer, { capabilities }: PushRequest): Buffer {
  if (!capabilities.has('side-band-64k') || !NO_MEMORY.test(beginningOf(answer))) return answer
  limitReached('git_memory')
  const reason = 'the push needs more memory than this server gives to a git process\n'
  return Buffer.concat([bandPackets(2, Buffer.from(reason)), answer])
}

const beginningOf = (answer: Buffer) => answer.toString('latin1', 0, MAX_REASON)
