/** Formats an error for the end of the process. */
import { inspect } from 'node:util'
import { OperatorError } from '../errors/operator-error.ts'
import { Refused } from '../errors/refusal.ts'
import { UnreadableEvent } from '../events/codec.ts'
import { StoreUnavailable } from '../events/store/event-store.ts'
import { isDiskFull } from '../storage/disk-full.ts'
import { type SqliteFailure, sqliteFailure } from '../storage/sqlite/errors.ts'
import { printable } from './terminal.ts'

/** A command failed for a reason that the operator can fix. The message has the reason. */
export class CommandFailed extends OperatorError {}

/** The arguments are wrong in a way that commander can't check. */
export class WrongUse extends OperatorError {}

/** Parses an argument with `read`. @throws WrongUse when `read` refuses it with an error of this class */
export function argument<T>(read: () => T, refusal: new (...args: never[]) => Error = Refused): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof refusal ? new WrongUse(error.message, { cause: error }) : error
  }
}

const OPERATOR_ERRORS = [OperatorError, StoreUnavailable, UnreadableEvent, Refused]

/** Problems of the machine. */
const MACHINE_PROBLEMS: ReadonlySet<SqliteFailure | undefined> = new Set([
  'not permitted',
  'busy',
  'read-only',
  'disk',
  'full',
  'cannot open',
])

/**
 * Describes why a database file can't be opened or written; undefined for other errors. The caller passes the name of
 * the file, which not all errors have.
 */
function fileProblem(error: unknown, file = 'a database in DATA_DIR'): string | undefined {
  if (!(error instanceof Error)) return undefined
  return MACHINE_PROBLEMS.has(sqliteFailure(error)) ? `${file} cannot be used: ${error.message}` : undefined
}

/** Opens a database file. @throws CommandFailed with the file's name when it can't be opened */
export function openFile<T>(file: string, open: (file: string) => T): T {
  try {
    return open(file)
  } catch (error) {
    const problem = fileProblem(error, file)
    throw problem === undefined ? error : new CommandFailed(problem, { cause: error })
  }
}

/** Returns one line for a problem that the operator can fix; the stack for other errors, which are bugs. */
export function explain(error: unknown): string {
  if (error instanceof Error && isDiskFull(error)) {
    return `mergelog: ${printable(`a disk is full: free some space, and run the command again (${error.message})`)}`
  }
  const problem = fileProblem(error)
  if (problem !== undefined) return `mergelog: ${printable(problem)}`
  const isOperatorError =
    error instanceof Error && (OPERATOR_ERRORS.some((kind) => error instanceof kind) || 'syscall' in error)
  if (!isOperatorError) return inspect(error)
  const details = error instanceof Refused ? (error.refusal.errors ?? []) : []
  const isSaid = details.every((detail) => error.message.includes(detail))
  const more = isSaid ? '' : ` (${details.join('; ')})`
  return `mergelog: ${printable(error.message + more)}`
}
