/** Tells whether something failed because there was no room to write it. */
import { refuse } from '../errors/refusal.ts'
import { sqliteFailure } from './sqlite/errors.ts'

/** The refusal of what cannot be written. What was acknowledged before stays. */
export const diskFull = refuse.insufficientStorage("the server's disk is full; try again later")

/** The disk is full, the quota of the server's user is used up, or a file may not grow. */
const CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
/** The same in the words of git (the system's, in the C locale) and of SQLite. */
const WORDS = /No space left on device|Disk quota exceeded|File too large|database or disk is full/
/** Errors have few causes of causes; a circle must not hold us. */
const MAX_CAUSES = 10

/** Whether this error, or what it was caused by, says that the disk is full. */
export function isDiskFull(error: unknown): boolean {
  let cause = error
  for (let i = 0; i < MAX_CAUSES && cause instanceof Error; i++) {
    if ('code' in cause && CODES.has(cause.code)) return true
    if (sqliteFailure(cause) === 'full' || WORDS.test(cause.message)) return true
    cause = cause.cause
  }
  return false
}
