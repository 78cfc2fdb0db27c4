/**
 * The chain of a stream: each event carries the hash of the one before it and its own, so that nobody can
 * change, remove or insert one afterwards without changing all that follow.
 *
 * Older logs have events without hashes. A stream may begin with such events; the first that is appended
 * after them holds the hash that the last of them would have had.
 */
import { hash as digest } from 'node:crypto'
import type { EventMetadata, NewEvent, RecordedEvent } from './event-store.ts'

/** The last event of a stream, as far as the next one needs it: revision -1 and no hash before the first. */
export interface StreamEnd {
  revision: number
  hash: string | null
}

export const STREAM_START: StreamEnd = { revision: -1, hash: null }

/** What an event has in a store when it is linked: its hash, and its JSON text as it was hashed. */
export interface LinkedText {
  hash: string
  data: string
  metadata: string
}

/** Links an event to the end of its stream; it becomes the next end. Hashes that it brings are replaced. */
export function link(stream: string, end: StreamEnd, event: NewEvent): LinkedText {
  const data = JSON.stringify(event.data)
  const hashed = JSON.stringify(withPrevious(event.metadata, end.hash))
  const hash = hashOfText(stream, end.revision + 1, event.id, event.type, data, hashed)
  // The text of the metadata with the hash as its last member, without writing it twice.
  return { hash, data, metadata: `${hashed.slice(0, -1)},"hash":"${hash}"}` }
}

/** Links the events of one append, each to the one before it. */
export function linkAll(stream: string, end: StreamEnd, events: readonly NewEvent[]): NewEvent[] {
  let { revision, hash: previous } = end
  return events.map((event) => {
    const { hash } = link(stream, { revision, hash: previous }, event)
    const linked = { ...event, metadata: { ...withPrevious(event.metadata, previous), hash } }
    revision += 1
    previous = hash
    return linked
  })
}

function withPrevious(metadata: EventMetadata, previous: string | null): EventMetadata {
  if (metadata.previous === undefined && metadata.hash === undefined) return { ...metadata, previous }
  const { hash: _, previous: __, ...own } = metadata
  return { ...own, previous }
}

/** The hash that the next event of the stream has to name: computed where an older log has none. */
export function lastHashOf(event: RecordedEvent): string {
  return event.metadata.hash ?? hashOf(event)
}

/**
 * The hash of an event, computed from all that it is except the hash that it carries: from its JSON as it is
 * stored when that is there, so that other characters that say the same are noticed.
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

/**
 * What is wrong with an event that follows `end` in its stream; undefined when nothing is. Where the chain
 * has not begun yet (`isLinked` is false), an event may be without hashes.
 */
export function chainProblem(event: RecordedEvent, end: StreamEnd, isLinked: boolean): string | undefined {
  if (event.revision !== end.revision + 1) {
    return event.revision <= end.revision
      ? `its revision ${event.revision} comes after revision ${end.revision}`
      : missing(end.revision + 1, event.revision - 1)
  }
  const { previous, hash } = event.metadata
  if (hash === undefined) {
    if (isLinked) return 'it carries no hash, though the event before it does'
    return previous === undefined ? undefined : 'it names the event before it and carries no hash of its own'
  }
  if (hash !== hashOf(event)) return 'its contents are not those of its hash'
  if (previous !== end.hash)
    return 'it does not follow the event before it: the hash that it names is another'
  return undefined
}

function missing(first: number, last: number): string {
  return first === last ? `revision ${first} is missing` : `revisions ${first} to ${last} are missing`
}

/** JSON text is the same however often it is read and written again, whatever store has it in between. */
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
