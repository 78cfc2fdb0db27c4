/** What is said of an error, before the process ends with it. */
import { inspect } from 'node:util'
import Database from 'libsql'
import { ConfigError } from '../config.ts'
import { DataDirInUse, DataDirUnusable } from '../data-lock.ts'
import { UnreadableEvent } from '../events/codec.ts'
import { StoreUnavailable } from '../events/event-store.ts'
import { Refused } from '../refusal.ts'
import { BrokenFile } from '../sqlite.ts'
import { printable } from './terminal.ts'
import { GatewayError } from './upgrade-follow/gateway-error.ts'

/** A command can't do what it was asked to; the message says why, to whoever can mend it. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed'
}

/** The arguments are wrong in a way that only the command itself can tell. */
export class WrongUse extends Error {
  override readonly name = 'WrongUse'
}

/** What `read` makes of an argument. @throws WrongUse for what it refuses */
export function argument<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof Refused ? new WrongUse(error.message, { cause: error }) : error
  }
}

const MENDABLE = [
  CommandFailed,
  WrongUse,
  ConfigError,
  DataDirInUse,
  DataDirUnusable,
  StoreUnavailable,
  BrokenFile,
  UnreadableEvent,
  GatewayError,
  Refused,
]

/** SQLite's primary codes for what the machine does not allow: busy, read-only, I/O, full, can't open, no right. */
const OF_THE_MACHINE = new Set([3, 5, 8, 10, 13, 14, 23])

/**
 * What keeps a database file from being opened or written, if that is what the error says; undefined otherwise.
 * Only some errors name their file themselves.
 */
function fileProblem(error: unknown, file = 'a database in DATA_DIR'): string | undefined {
  if (!(error instanceof Error)) return undefined
  // The driver's own error, of another class than those of SQLite.
  const unopened = /^ConnectionFailed\("Unable to open connection to local database (.*): \d+"\)$/.exec(
    error.message,
  )?.[1]
  if (unopened !== undefined) return `${unopened} can not be opened`
  if (!(error instanceof Database.SqliteError) || error.rawCode === undefined) return undefined
  return OF_THE_MACHINE.has(error.rawCode & 0xff) ? `${file} can not be used: ${error.message}` : undefined
}

/** Opens a database file; what keeps it from being opened names it. @throws CommandFailed */
export function openFile<T>(file: string, open: (file: string) => T): T {
  try {
    return open(file)
  } catch (error) {
    const problem = fileProblem(error, file)
    throw problem === undefined ? error : new CommandFailed(problem, { cause: error })
  }
}

/** What an operator can mend is one line; anything else is a bug and shows where. */
export function explain(error: unknown): string {
  const problem = fileProblem(error)
  if (problem !== undefined) return `mergelog: ${printable(problem)}`
  const plain =
    error instanceof Error && (MENDABLE.some((kind) => error instanceof kind) || 'syscall' in error)
  if (!plain) return inspect(error)
  const details = error instanceof Refused ? (error.refusal.errors ?? []) : []
  const more = details.length > 0 && !details.includes(error.message) ? ` (${details.join('; ')})` : ''
  return `mergelog: ${printable(error.message + more)}`
}
