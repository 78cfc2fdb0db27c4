/**
 * The hash chain of a stream. Each event carries its own hash and the hash of the event before it. Changing, removing
 * or inserting an event would require a change of all later events of the stream.
 */
import { hash as digest } from 'node:crypto'
import { leafHash } from '../../domain/transparency/merkle-tree.ts'
import type { EventMetadata, EventText, NewEvent, RecordedEvent, StoredText } from './event-store.ts'

/** The revision and hash of a stream's last event: the next event needs both. An empty stream has -1 and null. */
export interface StreamEnd {
  revision: number
  hash: string | null
}

export const STREAM_START: StreamEnd = { revision: -1, hash: null }

/**
 * Links an event to the end of its stream. If the event already has hashes, they are replaced. Returns its hash, and
 * the JSON text that a store writes.
 */
export function link(stream: string, end: StreamEnd, event: NewEvent): StoredText & { hash: string } {
  const data = JSON.stringify(event.data)
  const own = JSON.stringify(withoutHashes(event.metadata))
  // Adds members at the end of the JSON text, which is cheaper than a copy of the metadata.
  const hashed = `${own.slice(0, -1)},"previous":${JSON.stringify(end.hash)}}`
  const hash = hashOfText(stream, end.revision + 1, event.id, event.type, data, hashed)
  return { hash, data, metadata: `${hashed.slice(0, -1)},"hash":"${hash}"}` }
}

/** Links the events of one append: the first one to the end of the stream, each other one to its predecessor. */
export function linkAll(
  stream: string,
  end: StreamEnd,
  events: readonly NewEvent[],
): (EventText & { hash: string })[] {
  let { revision, hash: previous } = end
  return events.map((event) => {
    const { id, type } = event
    const linked = link(stream, { revision, hash: previous }, event)
    revision += 1
    previous = linked.hash
    return { id, type, ...linked }
  })
}

function withoutHashes(metadata: EventMetadata): EventMetadata {
  if (metadata.previous === undefined && metadata.hash === undefined) return metadata
  const { hash: _, previous: __, ...own } = metadata
  return own
}

/** Returns the end of a stream after its last event. */
export function endAfter({ revision, metadata }: Pick<RecordedEvent, 'revision' | 'metadata'>): StreamEnd {
  return { revision, hash: metadata.hash ?? null }
}

/**
 * Computes the hash of an event from all of its parts, except the hash that it carries. Uses the stored JSON text, if
 * available: this detects changes of the text even when the values stay the same.
 */
export function hashOf({ stream, revision, id, type, data, metadata, text }: RecordedEvent): string {
  if (text !== undefined) {
    const end = metadata.hash === undefined ? '' : `,"hash":"${metadata.hash}"}`
    const isOurs = end !== '' && text.metadata.endsWith(end)
    const hashed = isOurs ? `${text.metadata.slice(0, -end.length)}}` : text.metadata
    return hashOfText(stream, revision, id, type, text.data, hashed)
  }
  const { hash: _, ...hashed } = metadata
  return hashOfText(stream, revision, id, type, JSON.stringify(data), JSON.stringify(hashed))
}

/** Checks an event that follows `end` in its stream. Returns a description of the problem, if any. */
export function chainProblem(event: RecordedEvent, end: StreamEnd): string | undefined {
  if (event.revision !== end.revision + 1) {
    const [first, last] = [end.revision + 1, event.revision - 1]
    if (last < first) return `its revision ${event.revision} comes after revision ${end.revision}`
    return first === last ? `revision ${first} is missing` : `revisions ${first} to ${last} are missing`
  }
  const { previous, hash } = event.metadata
  if (hash === undefined) return 'it carries no hash'
  if (hash !== hashOf(event)) return 'its hash does not match its contents'
  if (previous !== end.hash) return 'it does not follow the event before it: it names another hash'
  return undefined
}

/**
 * Returns the leaf of an event in the Merkle tree over the log: the hash of the 32 bytes of the event's own hash.
 * @throws TypeError for an event without a hash
 */
export function leafOf({ stream, revision, metadata }: RecordedEvent): Buffer {
  if (metadata.hash === undefined) throw new TypeError(`${stream}@${revision} carries no hash`)
  return leafHash(Buffer.from(metadata.hash, 'base64url'))
}

// JSON text survives parsing and serialization unchanged, so all stores result in the same hash.
function hashOfText(
  stream: string,
  revision: number,
  id: string,
  type: string,
  data: string,
  metadata: string,
): string {
  const name = JSON.stringify(stream)
  const text = `[${name},${revision},${JSON.stringify(id)},${JSON.stringify(type)},${data},${metadata}]`
  return digest('sha256', text, 'base64url')
}
