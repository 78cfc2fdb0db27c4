/** Recognizes errors of a full disk. */
import { refuse } from '../errors/refusal.ts'
import { sqliteFailure } from './sqlite/errors.ts'

/** The refusal of a write to a full disk. Acknowledged data stays. */
export const diskFull = refuse.insufficientStorage("the server's disk is full; try again later")

/** Error codes of a full disk, a used-up quota, or a file at its maximum size. */
const CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
/** The same errors in messages of git (from the system, in the C locale) and of SQLite. */
const WORDS = /No space left on device|Disk quota exceeded|File too large|database or disk is full/
/** Maximum number of nested causes to check: causes may be circular. */
const MAX_CAUSES = 10

/** Whether this error, or one of its causes, reports a full disk. */
export function isDiskFull(error: unknown): boolean {
  let cause = error
  for (let i = 0; i < MAX_CAUSES && cause instanceof Error; i++) {
    if ('code' in cause && CODES.has(cause.code)) return true
    if (sqliteFailure(cause) === 'full' || WORDS.test(cause.message)) return true
    cause = cause.cause
  }
  return false
}
