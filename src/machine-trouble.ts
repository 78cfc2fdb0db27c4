/** Tells whether something failed because of the machine, and not because of what was asked. */
import { isDiskFull } from './disk-full.ts'
import { refuse } from './refusal.ts'

/** The refusal of what the machine does not let the server do now. What was acknowledged before stays. */
export const machineTrouble = refuse.unavailable(
  'the machine of the server cannot do this now; try again later',
)

/** What the system says when a process may have no more of something, or when a disk cannot be used. */
const MEANINGS: ReadonlyMap<unknown, string> = new Map([
  ['EMFILE', 'the server may open no further file'],
  ['ENFILE', 'the machine can open no further file'],
  ['EAGAIN', 'no further process or thread can be started'],
  ['ENOMEM', 'there is no memory'],
  ['EIO', 'a disk cannot be read or written'],
  ['ESTALE', 'a disk cannot be read or written'],
  ['EROFS', 'a disk is read-only'],
  ['EACCES', 'the server may not use its own files'],
  ['EPERM', 'the server may not use its own files'],
])
/** The same of SQLite. */
const OF_SQLITE: readonly [RegExp, string][] = [
  [/^SQLITE_IOERR_NOMEM|^SQLITE_NOMEM/, 'there is no memory'],
  [/^SQLITE_IOERR|^SQLITE_PROTOCOL/, 'a disk cannot be read or written'],
  [/^SQLITE_READONLY/, 'a disk is read-only'],
  [/^SQLITE_(CANTOPEN|PERM)/, 'the server may not use its own files'],
]
/** Errors have few causes of causes; a circle must not hold us. */
const MAX_CAUSES = 10

/**
 * What is wrong with the machine, when this error or what it was caused by says so; undefined otherwise. A full disk is
 * not meant: see `disk-full.ts`.
 */
export function machineTroubleOf(error: unknown): string | undefined {
  if (isDiskFull(error)) return undefined
  let cause = error
  for (let i = 0; i < MAX_CAUSES && cause instanceof Error; i++) {
    const code = 'code' in cause ? cause.code : undefined
    // Errors of the system name the call that failed; others use the same codes for other things.
    const meaning = 'syscall' in cause ? MEANINGS.get(code) : undefined
    const ofSqlite = OF_SQLITE.find(([pattern]) => typeof code === 'string' && pattern.test(code))
    if (meaning !== undefined || ofSqlite !== undefined) return meaning ?? ofSqlite?.[1]
    cause = cause.cause
  }
  return undefined
}
