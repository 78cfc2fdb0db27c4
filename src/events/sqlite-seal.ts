/** Seals the texts of a log that older versions wrote clear, in place. Nobody else may have the log open. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ROWS, type Sqlite, selectTuples } from '../sqlite.ts'
import { lastHashOf, link } from './chain.ts'
import type { Position, RecordedEvent, StoredText } from './event-store.ts'
import { seal } from './seal.ts'
import { textsIn } from './sealed-texts.ts'
import { EVENT_COLUMNS, type EventTuple, openLogFile, toEvent } from './sqlite-log.ts'
import type { TextKeys } from './text-keys.ts'

export interface SealedLog {
  events: number
  /** The events whose texts were clear. */
  sealed: number
  /** The streams whose hashes are others now, from the first sealed event on. */
  streams: number
}

const PAGE = 500

/**
 * Seals all clear texts in one transaction, links the chains of their streams anew, and writes the file anew, so that no
 * clear text is left in it. After a crash all is as before, or it is done again.
 *
 * @throws BrokenEvent, BrokenFile; StoreUnavailable when no keys can be made
 */
export async function sealLog(
  file: string,
  keys: TextKeys,
  onProgress: (done: Position, total: Position) => void = () => {},
): Promise<SealedLog> {
  const db = openLogFile(file)
  try {
    const result = await sealAll(db, file, keys, onProgress)
    rewrite(db)
    return result
  } finally {
    if (db.isTransaction) db.exec('ROLLBACK')
    db.close()
  }
}

/** Writes a database anew, and empties its WAL: what was deleted or replaced is in no file of it any more. */
export function rewrite(db: Sqlite): void {
  db.exec('VACUUM')
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
}

async function sealAll(
  db: Sqlite,
  file: string,
  keys: TextKeys,
  onProgress: (done: Position, total: Position) => void,
): Promise<SealedLog> {
  const page = selectTuples<[number, number], EventTuple>(
    db,
    `SELECT ${EVENT_COLUMNS} FROM events JOIN streams ON streams.id = events.stream
     WHERE position > ? ORDER BY position LIMIT ${ROWS}`,
  )
  const end = selectTuples<[], [number]>(db, 'SELECT coalesce(max(position), 0) FROM events')
  const replace = db.prepare('UPDATE events SET data = ?, metadata = ? WHERE position = ?')
  const moveEnd = db.prepare('UPDATE streams SET hash = ? WHERE name = ?')
  const [total = 0] = end.get() ?? []
  /** The hash of the last event of each stream that has changed. */
  const changed = new Map<string, string>()
  let events = 0
  let sealed = 0

  /** The event as it is to be stored; undefined when it stays as it is. */
  async function next(event: RecordedEvent): Promise<(StoredText & { hash: string }) | undefined> {
    const { stream, revision, id, type, metadata } = event
    const before = changed.get(stream)
    const found = textsIn(event)
    const [key] = found === undefined ? [] : await keys.take(1)
    const data =
      found === undefined || key === undefined
        ? event.data
        : { ...found.rest, sealed: seal({ stream, id, type }, found.texts, key) }
    if (found !== undefined) sealed += 1
    else if (before === undefined) return undefined
    const isLinked = metadata.hash !== undefined
    if (isLinked) {
      const hash = before ?? metadata.previous ?? null
      return link(stream, { revision: revision - 1, hash }, { id, type, data, metadata })
    }
    const hash = lastHashOf({ position: event.position, stream, revision, id, type, data, metadata })
    return { data: JSON.stringify(data), metadata: JSON.stringify(metadata), hash }
  }

  db.exec('BEGIN IMMEDIATE')
  for (let position = 0; ; ) {
    const rows = page.all(position, PAGE)
    for (const row of rows) {
      const event = toEvent(file, row)
      const stored = await next(event)
      events += 1
      position = event.position
      if (stored === undefined) continue
      replace.run(stored.data, stored.metadata, position)
      changed.set(event.stream, stored.hash)
    }
    onProgress(position, total)
    if (rows.length < PAGE) break
    await nextTurn()
  }
  for (const [stream, hash] of changed) moveEnd.run(hash, stream)
  db.exec('COMMIT')
  return { events, sealed, streams: changed.size }
}
