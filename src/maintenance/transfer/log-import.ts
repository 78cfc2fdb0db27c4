/**
 * Appends the events of an export to an empty log, with their hashes and in their order. Only their positions are new.
 */
import pRetry from 'p-retry'
import {
  type EventStore,
  LOG_START,
  mayRecover,
  type Position,
  WrongExpectedRevision,
} from '../../events/store/event-store.ts'
import { BackupProblem } from '../backup/manifest.ts'
import { isEvent, type ProcessLine } from './format.ts'
import { linesIn, valuesIn } from './lines.ts'
import { batchesOf, LARGEST_APPEND, type Run, type SizedEvent } from './runs.ts'

/** Retries of a batch while EventStoreDB does not answer: half a minute in total. */
const RETRIES = { retries: 8, minTimeout: 200, maxTimeout: 5000 }
/** For an embedded log: a retry would fail too. */
const NO_RETRIES = { retries: 0 }

export interface LogImport {
  /** The file of the exported log. */
  path: string
  /** Number of its events. */
  total: number
  /** The log to fill. It stores events unchanged. */
  log: Pick<EventStore, 'append' | 'readAll'>
  /** Whether the log may have the first events already, from an interrupted import. */
  continues: boolean
  /** Whether failed appends are retried. */
  retried: boolean
  /** The positions of the processes in the exported log. */
  processes: readonly ProcessLine[]
  onEvents: (done: number) => void
}

/**
 * Resolves to the positions of the processes in the filled log.
 * @throws BackupProblem when the log has other events than the first ones of the export; StoreUnavailable
 */
export async function importLog(options: LogImport): Promise<ProcessLine[]> {
  const { path, total, log, continues, retried, processes, onEvents } = options
  const positions = new Map(processes.map(({ process }) => [process, LOG_START]))
  let done = 0
  let last = LOG_START

  /** Records the position of an imported event. */
  function placed(from: Position, to: Position): void {
    if (to <= last) throw otherOrder()
    last = to
    for (const { process, position } of processes) if (from <= position) positions.set(process, to)
  }

  const events = eventsIn(path)
  const remaining = continues
    ? lackingIn(log, events, (from, to) => {
        done += 1
        placed(from, to)
      })
    : events
  const ends = new Set(processes.map(({ position }) => position))
  for await (const batch of batchesOf(remaining, ends)) {
    const appended = await appendAll(log, batch, retried ? RETRIES : NO_RETRIES)
    for (const [i, run] of batch.entries()) {
      placed(run.position, appended[i] ?? LOG_START)
      done += run.events.length
    }
    onEvents(done)
  }
  if (done !== total) throw new BackupProblem(`${path} has ${done} events instead of ${total}`)
  return [...positions].map(([process, position]) => ({ process, position }))
}

/** Resolves to all results. @throws the first error in order, which may have caused the others */
async function inOrder<T>(all: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(all)
  const results: T[] = []
  for (const one of all) results.push(await one)
  return results
}

async function* eventsIn(path: string): AsyncGenerator<SizedEvent> {
  let before = LOG_START
  for await (const { line, value: event } of valuesIn(path, isEvent)) {
    if (event.position <= before) throw new BackupProblem(`${path}: the events are not in the order of a log`)
    before = event.position
    yield { event, size: Buffer.byteLength(line) }
  }
}

/** Yields the events that the log lacks. Calls `found` for those that it has: they must be the first ones. */
async function* lackingIn(
  log: LogImport['log'],
  events: AsyncIterable<SizedEvent>,
  found: (from: Position, to: Position) => void,
): AsyncGenerator<SizedEvent> {
  const existing = log.readAll()[Symbol.asyncIterator]()
  let existingEvent = await existing.next()
  for await (const sized of events) {
    if (existingEvent.done) {
      yield sized
      continue
    }
    const { event } = sized
    const { id, stream, revision, position } = existingEvent.value
    if (id !== event.id || stream !== event.stream || revision !== event.revision) throw otherEvents()
    found(event.position, position)
    existingEvent = await existing.next()
  }
  if (!existingEvent.done) throw otherEvents()
}

/**
 * Appends runs concurrently: both kinds of logs keep the order of sending. Resolves to the position of the last event
 * of each run. After an outage all are sent again: appends are idempotent.
 */
function appendAll(
  log: LogImport['log'],
  runs: readonly Run[],
  retries: typeof RETRIES | typeof NO_RETRIES,
): Promise<Position[]> {
  return pRetry(() => inOrder(runs.map((run) => appendRun(log, run))), {
    ...retries,
    shouldRetry: ({ error }) => mayRecover(error),
  })
}

/** Resolves to the position of the last event of the run. */
async function appendRun(
  log: LogImport['log'],
  { stream, expected, revision, events }: Run,
): Promise<Position> {
  try {
    const appended = await log.append(stream, events, expected)
    if (appended.revision === revision) return appended.position
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error
    const first = revision - events.length + 1
    throw (error.actual ?? -1) < first - 1 ? gapBefore(stream, first, error) : otherEvents(error)
  }
  throw new BackupProblem(`the log once had a stream ${stream}, and continues its revisions: use a new log`)
}

/** A busy server may refuse an append and accept later ones. */
const otherOrder = () =>
  new BackupProblem('the server has stored events in a different order than they were sent: use a new log')

const otherEvents = (cause?: Error) =>
  new BackupProblem('the log has events that are not in this export: an import needs an empty log', { cause })

/** The exported log lacks an event: it was damaged, or another program wrote into the stream. */
const gapBefore = (stream: string, revision: number, cause: Error) =>
  new BackupProblem(
    `the export lacks an event of ${stream} before revision ${revision}: verify the exported log`,
    { cause },
  )

/** Refuses an export with an event that is too large for EventStoreDB. @throws BackupProblem */
export async function refuseLargeEvents(path: string): Promise<void> {
  let number = 0
  for await (const line of linesIn(path)) {
    number += 1
    const size = line.length > LARGEST_APPEND / 3 ? Buffer.byteLength(line) : 0
    if (size <= LARGEST_APPEND) continue
    const what = `${path}, line ${number}: the event has ${size} bytes`
    throw new BackupProblem(`${what}; EventStoreDB takes at most ${LARGEST_APPEND}`)
  }
}
