/** What is said of an error, before the process ends with it. */
import { inspect } from 'node:util'
import { Refused } from '../commands/refusal.ts'
import { ConfigError } from '../config.ts'
import { DataDirInUse } from '../data-lock.ts'
import { UnreadableEvent } from '../events/codec.ts'
import { StoreUnavailable } from '../events/event-store.ts'
import { BrokenFile } from '../sqlite.ts'
import { GatewayError } from '../upgrade/follow-gateway.ts'
import { printable } from './terminal.ts'

/** A command can't do what it was asked to; the message says why, to whoever can mend it. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed'
}

const MENDABLE = [
  CommandFailed,
  ConfigError,
  DataDirInUse,
  StoreUnavailable,
  BrokenFile,
  UnreadableEvent,
  GatewayError,
  Refused,
]

/** What an operator can mend is one line; anything else is a bug and shows where. */
export function explain(error: unknown): string {
  const plain =
    error instanceof Error && (MENDABLE.some((kind) => error instanceof kind) || 'syscall' in error)
  if (!plain) return inspect(error)
  const details = error instanceof Refused ? (error.refusal.errors ?? []) : []
  const more = details.length > 0 && !details.includes(error.message) ? ` (${details.join('; ')})` : ''
  return `mergelog: ${printable(error.message + more)}`
}
