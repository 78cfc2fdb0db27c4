/** Recognizes errors of the host: a lack of file descriptors, memory or processes, or a broken disk. */

import { refuse } from '../errors/refusal.ts'
import { isDiskFull } from './disk-full.ts'
import { type SqliteFailure, sqliteFailure } from './sqlite/errors.ts'

/** The refusal after a host failure. Acknowledged data stays. */
export const hostFailure = refuse.unavailable("the server's host lacks a resource for this; try again later")

const NO_FILE = 'the server may open no further file'
const NO_FILE_ANYWHERE = 'the machine can open no further file'
const NO_PROCESS = 'no further process or thread can be started'
const NO_MEMORY = 'out of memory'
const NO_DISK = 'a disk cannot be read or written'
const READ_ONLY = 'a disk is read-only'
const NOT_ALLOWED = 'the server may not use its own files'
const NO_TEMPORARY = 'the directory for temporary files (TMPDIR) is gone'

/** Error codes of the system. */
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
/** `mkdtemp` only creates temporary directories. Their parent may be removed or unmounted while the server runs. */
const isTemporaryGone = (code: unknown, syscall: unknown) =>
  syscall === 'mkdtemp' && (code === 'ENOENT' || code === 'ENOTDIR')
/** Node's error code when it cannot start a thread. */
const NO_THREAD = 'ERR_WORKER_INIT_FAILED'
/** Failures of SQLite. */
const SQLITE_FAILURES: ReadonlyMap<SqliteFailure | undefined, string> = new Map([
  ['no memory', NO_MEMORY],
  ['disk', NO_DISK],
  ['read-only', READ_ONLY],
  ['cannot open', NOT_ALLOWED],
  ['not permitted', NOT_ALLOWED],
])
/** Messages of git (from the system, in the C locale). The last one is for messages without the system's reason. */
const WORDS: readonly [RegExp, string][] = [
  [/Too many open files in system/, NO_FILE_ANYWHERE],
  [/Too many open files/, NO_FILE],
  [/Resource temporarily unavailable|unable to create thread/, NO_PROCESS],
  [/Input\/output error|Stale file handle|Structure needs cleaning/, NO_DISK],
  [/Read-only file system/, READ_ONLY],
  [/: (?:Permission denied|Operation not permitted)|insufficient permission for adding/, NOT_ALLOWED],
  [/(?:fatal|error): (?:.{1,500}: )?(?:couldn't|failed to|unable to) write /, NO_DISK],
]

/** Describes the host failure that a message of git reports; undefined for other messages. */
export const hostFailureIn = (words: string): string | undefined =>
  WORDS.find(([pattern]) => pattern.test(words))?.[1]
/** Maximum number of nested causes to check: causes may be circular. */
const MAX_CAUSES = 10

/**
 * Describes the host failure that this error or one of its causes reports; undefined for other errors, and for a full disk
 * (see `disk-full.ts`).
 */
export function hostFailureOf(error: unknown): string | undefined {
  if (isDiskFull(error)) return undefined
  let cause = error
  for (let i = 0; i < MAX_CAUSES && cause instanceof Error; i++) {
    const code = 'code' in cause ? cause.code : undefined
    // System errors name the call that failed. Other errors use the same codes with other meanings.
    const syscall = 'syscall' in cause ? cause.syscall : undefined
    const fromSystem = isTemporaryGone(code, syscall)
      ? NO_TEMPORARY
      : syscall !== undefined
        ? CODES.get(code)
        : undefined
    const fromLibrary = code === NO_THREAD ? NO_PROCESS : SQLITE_FAILURES.get(sqliteFailure(cause))
    const failure = fromSystem ?? fromLibrary ?? hostFailureIn(cause.message)
    if (failure !== undefined) return failure
    cause = cause.cause
  }
  return undefined
}
