/** Events in the order of the log, many as one row: the driver takes its time for each row and each piece of bytes. */
import { type Bytes, bufferOf, type Sqlite, selectColumn, selectTuples } from '../sqlite.ts'
import type { Position } from './event-store.ts'
import { EVENT_HEAD, EVENT_TEXTS, type EventTuple } from './sqlite-log.ts'

/** How many bytes of texts are one row; more when a single event has more. */
const RUN_BYTES = 1024 * 1024

/** A tuple with the length of the metadata in the place of the texts. Of a damaged row any length may be null. */
type Head = [...(EventTuple extends [...infer Others, Bytes] ? Others : never), metadata: number]

/** At most `limit` events after a position. How large they are is asked first, so that few large ones are a row. */
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
