/**
 * Reads events in the order of the log, many of them as one row (a run). The driver is slow for each row and each
 * BLOB, so few large rows are faster.
 */
import { type Bytes, bufferOf, type Sqlite, selectColumn, selectTuples } from '../sqlite.ts'
import type { Position } from './event-store.ts'
import { EVENT_HEAD, EVENT_TEXTS, type EventTuple } from './sqlite-log.ts'

/** The bytes of texts in one run. A single larger event is a run of its own. */
const RUN_BYTES = 1024 * 1024

/** An event's columns, with the length of its metadata instead of its texts. A damaged row may have null lengths. */
type Head = [...(EventTuple extends [...infer Others, Bytes] ? Others : never), metadata: number]

/**
 * Returns a function that reads at most `limit` events after a position. It reads the sizes of the events first, to
 * limit the bytes of each run.
 */
export function eventRuns(db: Sqlite): (after: Position, limit: number) => Iterable<EventTuple> {
  const sizes = selectColumn<[number, number], string>(
    db,
    `SELECT json_group_array(json_array(position, octet_length(data) + octet_length(metadata)))
     FROM (SELECT position, data, metadata FROM events WHERE position > ? ORDER BY position LIMIT ?)`,
  )
  const run = selectTuples<[number, number], [heads: string, texts: Bytes | null]>(
    db,
    `SELECT json_group_array(json_array(${EVENT_HEAD}, octet_length(metadata))),
       CAST(group_concat(${EVENT_TEXTS}, '') AS BLOB)
     FROM events CROSS JOIN streams ON streams.id = events.stream WHERE position > ? AND position <= ?`,
  )

  function* between(after: Position, upTo: Position): Iterable<EventTuple> {
    const [heads, texts] = run.get(after, upTo) ?? ['[]', null]
    const bytes = bufferOf(texts ?? new Uint8Array())
    const events: Head[] = JSON.parse(heads)
    let start = 0
    for (const [position, revision, name, id, type, data, isTyped, metadata] of events) {
      const end = start + (name ?? 0) + (id ?? 0) + (type ?? 0) + (data ?? 0) + (metadata ?? 0)
      yield [position, revision, name, id, type, data, isTyped, bytes.subarray(start, end)]
      start = end
    }
  }

  return function* (after, limit) {
    const ahead: [position: Position, bytes: number][] = JSON.parse(sizes.get(after, limit) ?? '[]')
    let [start, bytes] = [after, 0]
    for (const [i, [position, size]] of ahead.entries()) {
      bytes += size
      if (bytes < RUN_BYTES && i < ahead.length - 1) continue
      yield* between(start, position)
      start = position
      bytes = 0
    }
  }
}
