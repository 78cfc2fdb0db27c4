/** The log of a server: lines of JSON, or on a terminal lines for people. */
import { type DestinationStream, destination, type Logger, pino } from 'pino'
import type { Config } from '../config/config.ts'
import { limitReached } from '../errors/limits.ts'
import { oneLinePerOutage } from './outage-log.ts'

/** What is held while nobody takes the log. Further lines are dropped, and counted. */
const MAX_HELD = 16 * 1024 * 1024

/** So many characters are written together. */
const TOGETHER = 4096
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
 * Writes lines together, some kilobytes or those of a tenth of a second: to write each one costs four times as much. It
 * never waits for a write: who reads the log slowly must not hold the event loop. What is left when the process exits by
 * itself or by an error is written then, apart from a write that is under way at that moment and that the reader does
 * not take. A process that is killed loses its last tenth of a second.
 */
function jsonLines(): DestinationStream {
  const lines = destination({ dest: STANDARD_OUTPUT, sync: false, minLength: TOGETHER, maxLength: MAX_HELD })
  lines.on('drop', () => limitReached('log_bytes'))
  // Nobody reads it any more. The server goes on without a log.
  lines.on('error', () => undefined)
  setInterval(() => lines.flush(), FLUSH_MS).unref()
  return lines
}

async function prettyLines(colorize: boolean): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty')
  return pretty({
    colorize,
    // At once: a person waits for it, and it must not come after what is printed later.
    sync: true,
    singleLine: true,
    ignore: 'pid,hostname,name,node',
    translateTime: 'SYS:HH:MM:ss.l',
  })
}
