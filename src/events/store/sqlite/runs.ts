/**
 * Reads events in the order of the log, many of them as one row (a run). The driver is slow for each row and each
 * BLOB, so few large rows are faster.
 */
import {
  type Bytes,
  bufferOf,
  lossyText,
  ROWS,
  type Sqlite,
  selectColumn,
  selectTuples,
} from '../../../storage/sqlite/sqlite.ts'
import type { Position } from '../event-store.ts'
import { EVENT_HEAD, EVENT_TEXTS, type EventTuple } from './log.ts'

/** Maximum bytes of texts in one run. A larger event is a run by itself. */
const RUN_BYTES = 1024 * 1024

/** An event's columns, with the length of its metadata instead of its texts. A damaged row may have null lengths. */
type Head = [...(EventTuple extends [...infer Others, Bytes] ? Others : never), metadata: number]

/** The next event. A damaged type may be null or unknown. */
type Ahead = [position: Position, bytes: number, type: string | null]

/** The filter of a run, and the callback for its end. */
interface RunOptions {
  unwanted?: ReadonlySet<string> | undefined
  passed?: (position: Position) => void
}

/**
 * Returns a function that reads at most `limit` events after a position. It first reads the sizes and the types of the
 * events: to limit the bytes of each run, and to skip unwanted events. Events of a damaged type are read.
 */
export function eventRuns(
  db: Sqlite,
): (after: Position, limit: number, options?: RunOptions) => Iterable<EventTuple> {
  // As bytes: see `Bytes`.
  const ahead = selectColumn<[number, number], Bytes>(
    db,
    `SELECT CAST(json_group_array(json_array(position, octet_length(data) + octet_length(metadata),
       iif(typeof(type) = 'text', type, NULL))) AS BLOB)
     FROM (SELECT position, type, data, metadata FROM events WHERE position > ? ORDER BY position LIMIT ${ROWS})`,
  )
  const run = selectTuples<[number, number, string], [heads: string, texts: Bytes | null]>(
    db,
    `SELECT json_group_array(json_array(${EVENT_HEAD}, octet_length(metadata))),
       CAST(group_concat(${EVENT_TEXTS}, '') AS BLOB)
     FROM events CROSS JOIN streams ON streams.id = events.stream
     WHERE position > ? AND position <= ? AND coalesce(type NOT IN (SELECT value FROM json_each(?)), 1)`,
  )

  function* between(after: Position, upTo: Position, unwanted: string): Iterable<EventTuple> {
    const [heads, texts] = run.get(after, upTo, unwanted) ?? ['[]', null]
    const bytes = bufferOf(texts ?? new Uint8Array())
    const events: Head[] = JSON.parse(heads)
    let start = 0
    for (const [position, revision, name, id, type, data, isTyped, metadata] of events) {
      const end = start + (name ?? 0) + (id ?? 0) + (type ?? 0) + (data ?? 0) + (metadata ?? 0)
      yield [position, revision, name, id, type, data, isTyped, bytes.subarray(start, end)]
      start = end
    }
  }

  return function* (after, limit, { unwanted, passed = () => {} } = {}) {
    const next: Ahead[] = JSON.parse(lossyText(ahead.get(after, limit) ?? NOTHING))
    const wanted = next.filter(([, , type]) => type === null || !unwanted?.has(type))
    const excluded = JSON.stringify([...(unwanted ?? [])])
    let [start, bytes] = [after, 0]
    for (const [i, [position, size]] of wanted.entries()) {
      bytes += size
      if (bytes < RUN_BYTES && i < wanted.length - 1) continue
      yield* between(start, position, excluded)
      start = position
      bytes = 0
    }
    passed(next.at(-1)?.[0] ?? after)
  }
}

const NOTHING = Buffer.from('[]')
