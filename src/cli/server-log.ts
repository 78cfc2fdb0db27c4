/** The log of a server: lines of JSON, or on a terminal lines for people. */
import { type DestinationStream, destination, type Logger, pino } from 'pino'
import type { Config } from '../config/config.ts'
import { limitReached } from '../errors/limits.ts'
import { oneLinePerOutage } from './outage-log.ts'

/** Maximum size of unread log lines, in bytes. Further lines are dropped and counted. */
const MAX_UNREAD = 16 * 1024 * 1024

/** Minimum size of a write, in characters. */
const MIN_WRITE = 4096
const FLUSH_MS = 100

const STANDARD_OUTPUT = 1

export interface ServerLog {
  log: Logger
  /** Whether standard output is for lines of JSON alone. */
  isJsonAlone: boolean
  /** Resolves when all lines are written. */
  flushed(): Promise<void>
}

/** `isTerminal`: whether standard output is one. */
export async function openServerLog(
  { logLevel: level, logFormat: format }: Pick<Config, 'logLevel' | 'logFormat'>,
  isTerminal: boolean,
): Promise<ServerLog> {
  const isPretty = (format ?? (isTerminal ? 'pretty' : 'json')) === 'pretty'
  const options = { level, name: 'mergelog', hooks: { logMethod: oneLinePerOutage() } }
  const lines = isPretty ? await prettyLines(isTerminal) : jsonLines()
  const log = pino(options, lines)
  const flushed = () => new Promise<void>((resolve) => log.flush(() => resolve()))
  return { log, isJsonAlone: format === 'json', flushed }
}

/**
 * Writes lines in batches of 4 KB or 100 ms: single writes cost four times as much. Never waits for a write, so that a
 * slow reader cannot block the event loop. A normal exit or an error writes pending lines, except when a write in
 * progress is blocked. A killed process loses its last 100 ms.
 */
function jsonLines(): DestinationStream {
  const lines = destination({
    dest: STANDARD_OUTPUT,
    sync: false,
    minLength: MIN_WRITE,
    maxLength: MAX_UNREAD,
  })
  lines.on('drop', () => limitReached('log_bytes'))
  // The reader has closed the log. The server continues without it.
  lines.on('error', () => undefined)
  setInterval(() => lines.flush(), FLUSH_MS).unref()
  return lines
}

async function prettyLines(colorize: boolean): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty')
  return pretty({
    colorize,
    // Synchronous, so that an interactive log stays in order with later output.
    sync: true,
    singleLine: true,
    ignore: 'pid,hostname,name,node',
    translateTime: 'SYS:HH:MM:ss.l',
  })
}
