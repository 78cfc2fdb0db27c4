/** Tells whether something failed because of the machine, and not because of what was asked. */

import { refuse } from '../errors/refusal.ts'
import { isDiskFull } from './disk-full.ts'
import { type SqliteFailure, sqliteFailure } from './sqlite/errors.ts'

/** The refusal of what the machine does not let the server do now. What was acknowledged before stays. */
export const hostFailure = refuse.unavailable('the machine of the server cannot do this now; try again later')

const NO_FILE = 'the server may open no further file'
const NO_FILE_ANYWHERE = 'the machine can open no further file'
const NO_PROCESS = 'no further process or thread can be started'
const NO_MEMORY = 'there is no memory'
const NO_DISK = 'a disk cannot be read or written'
const READ_ONLY = 'a disk is read-only'
const NOT_ALLOWED = 'the server may not use its own files'
const NO_TEMPORARY = 'the directory for temporary files (TMPDIR) is gone'

/** What the system says when a process may have no more of something, or when a disk cannot be used. */
const CODES: ReadonlyMap<unknown, string> = new Map([
  ['EMFILE', NO_FILE],
  ['ENFILE', NO_FILE_ANYWHERE],
  ['EAGAIN', NO_PROCESS],
  ['ENOMEM', NO_MEMORY],
  ['EIO', NO_DISK],
  ['ESTALE', NO_DISK],
  ['EROFS', READ_ONLY],
  ['EACCES', NOT_ALLOWED],
  ['EPERM', NOT_ALLOWED],
])
/** Only what is temporary is made by this call; its place may be removed or unmounted while the server runs. */
const isTemporaryGone = (code: unknown, syscall: unknown) =>
  syscall === 'mkdtemp' && (code === 'ENOENT' || code === 'ENOTDIR')
/** The code of Node when it cannot start a thread. */
const NO_THREAD = 'ERR_WORKER_INIT_FAILED'
/** The same of SQLite. */
const OF_SQLITE: ReadonlyMap<SqliteFailure | undefined, string> = new Map([
  ['no memory', NO_MEMORY],
  ['disk', NO_DISK],
  ['read-only', READ_ONLY],
  ['cannot open', NOT_ALLOWED],
  ['not permitted', NOT_ALLOWED],
])
/** The same in the words of git (the system's, in the C locale). Sometimes it leaves the system's out. */
const WORDS: readonly [RegExp, string][] = [
  [/Too many open files in system/, NO_FILE_ANYWHERE],
  [/Too many open files/, NO_FILE],
  [/Resource temporarily unavailable|unable to create thread/, NO_PROCESS],
  [/Input\/output error|Stale file handle|Structure needs cleaning/, NO_DISK],
  [/Read-only file system/, READ_ONLY],
  [/: (?:Permission denied|Operation not permitted)|insufficient permission for adding/, NOT_ALLOWED],
  [/(?:fatal|error): (?:.{1,500}: )?(?:couldn't|failed to|unable to) write /, NO_DISK],
]

/** What is wrong with the machine, when git says so; undefined otherwise. */
export const hostFailureIn = (words: string): string | undefined =>
  WORDS.find(([pattern]) => pattern.test(words))?.[1]
/** Errors have few causes of causes; a circle must not hold us. */
const MAX_CAUSES = 10

/**
 * What is wrong with the machine, when this error or what it was caused by says so; undefined otherwise. A full disk is
 * not meant: see `disk-full.ts`.
 */
export function hostFailureOf(error: unknown): string | undefined {
  if (isDiskFull(error)) return undefined
  let cause = error
  for (let i = 0; i < MAX_CAUSES && cause instanceof Error; i++) {
    const code = 'code' in cause ? cause.code : undefined
    // Errors of the system name the call that failed; others use the same codes for other things.
    const syscall = 'syscall' in cause ? cause.syscall : undefined
    const ofSystem = isTemporaryGone(code, syscall)
      ? NO_TEMPORARY
      : syscall !== undefined
        ? CODES.get(code)
        : undefined
    const ofOthers = code === NO_THREAD ? NO_PROCESS : OF_SQLITE.get(sqliteFailure(cause))
    const trouble = ofSystem ?? ofOthers ?? hostFailureIn(cause.message)
    if (trouble !== undefined) return trouble
    cause = cause.cause
  }
  return undefined
}
