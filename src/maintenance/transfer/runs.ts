/** Groups the events of a log into appends. */
import type { ExpectedRevision, NewEvent, Position } from '../../events/store/event-store.ts'
import type { EventLine } from './format.ts'

/** EventStoreDB's limit of an append, in bytes of data, metadata and types. */
export const LARGEST_APPEND = 1024 * 1024

/** Half of the limit, because the size of a line only approximates the server's count. */
const RUN_BYTES = LARGEST_APPEND / 2
const RUN_EVENTS = 500
/** A batch is in memory as a whole; the embedded log writes it in one transaction. */
const BATCH_BYTES = 4 * LARGEST_APPEND
const BATCH_EVENTS = 1000

/** Events that follow each other in the log and in their stream: one append. */
export interface Run {
  stream: string
  expected: ExpectedRevision
  events: NewEvent[]
  /** In bytes. */
  size: number
  /** The revision of the last event. */
  revision: number
  /** The position of the last event in the exported log. */
  position: Position
}

/** A line of a log, with its length in bytes. */
export interface SizedEvent {
  event: EventLine
  size: number
}

/** Groups events into runs, and runs into batches. A run ends after an event whose position is in `ends`. */
export async function* batchesOf(
  events: AsyncIterable<SizedEvent>,
  ends: ReadonlySet<Position>,
): AsyncGenerator<Run[]> {
  let batch: Run[] = []
  let [count, bytes] = [0, 0]
  for await (const { event, size } of events) {
    const last = batch.at(-1)
    if (last !== undefined && !ends.has(last.position) && fits(last, event, size)) extend(last, event, size)
    else batch.push(newRun(event, size))
    count += 1
    bytes += size
    if (count < BATCH_EVENTS && bytes < BATCH_BYTES) continue
    yield batch
    batch = []
    count = 0
    bytes = 0
  }
  if (batch.length > 0) yield batch
}

const fits = (run: Run, { stream, revision }: EventLine, size: number) =>
  run.stream === stream &&
  run.revision + 1 === revision &&
  run.events.length < RUN_EVENTS &&
  run.size + size <= RUN_BYTES

function extend(run: Run, event: EventLine, size: number): void {
  run.events.push(newEvent(event))
  run.size += size
  run.revision = event.revision
  run.position = event.position
}

const newRun = (event: EventLine, size: number): Run => ({
  stream: event.stream,
  expected: event.revision === 0 ? 'no-stream' : event.revision - 1,
  events: [newEvent(event)],
  size,
  revision: event.revision,
  position: event.position,
})

const newEvent = ({ id, type, data, metadata }: EventLine): NewEvent => ({ id, type, data, metadata })
