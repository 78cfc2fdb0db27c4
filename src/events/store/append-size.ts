/**
 * Limits the size of appends. EventStoreDB accepts at most 1 MiB (1,048,576 bytes) at once. A lower limit holds for
 * every store, so that a log can be moved from any store to any other.
 */
import { atLimit } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { sealedSize } from '../sealing/sealed-texts.ts'
import type { NewEvent } from './event-store.ts'

/** Maximum size of an append, in bytes: 32 KiB less than EventStoreDB accepts. */
export const MAX_APPEND_BYTES = 992 * 1024
/**
 * Maximum size of a text in a request, in bytes of JSON. Sealed, it takes a third more, and leaves space for the lists
 * of its event.
 */
export const MAX_TEXT_BYTES = 384 * 1024
/** Maximum size of a list in an event, in bytes of JSON: several lists and a text fit into one append. */
export const MAX_LIST_BYTES = 48 * 1024
/** Size of an event besides its data and metadata, in bytes: the type, the id, the node, `previous` and `hash`. */
const BYTES_PER_EVENT = 512

/** Returns the size of a value as JSON, in bytes. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}

/** Returns the size of an event with sealed texts. Without `metadata`, the caller adds its size. */
export function eventBytes({
  type = '',
  data,
  metadata,
}: Pick<NewEvent, 'data'> & Partial<NewEvent>): number {
  const sealed = sealedSize({ type, data })
  const bytes = sealed === undefined ? jsonBytes(data) : jsonBytes(sealed.rest) + sealed.bytes
  return BYTES_PER_EVENT + bytes + (metadata === undefined ? 0 : jsonBytes(metadata))
}

/**
 * Returns an upper bound of an event's size. A UTF-16 unit takes at most six bytes as JSON, and four when it is sealed;
 * a number 24.
 */
function mostBytes({ data, metadata }: Pick<NewEvent, 'data' | 'metadata'>): number {
  return BYTES_PER_EVENT + mostJsonBytes(data) + mostJsonBytes(metadata)
}

function mostJsonBytes(value: unknown): number {
  if (typeof value === 'string') return 6 * value.length + 3
  if (typeof value !== 'object' || value === null) return 25
  let bytes = 3
  // Data has objects and arrays only; the members of an array are its values, with short keys.
  for (const key in value) bytes += 6 * key.length + 4 + mostJsonBytes(Reflect.get(value, key))
  return bytes
}

/** Refuses events that are too large for one append, before anything is written. @throws Refused (too large) */
export function requireAppendable(events: readonly NewEvent[]): void {
  // The upper bound is cheap, and enough for most events.
  if (events.reduce((sum, event) => sum + mostBytes(event), 0) <= MAX_APPEND_BYTES) return
  const bytes = events.reduce((sum, event) => sum + eventBytes(event), 0)
  if (bytes > MAX_APPEND_BYTES) {
    throw new Refused(
      atLimit(
        'append_bytes',
        refuse.tooLarge(`the change has ${bytes} bytes; at most ${MAX_APPEND_BYTES} can be recorded at once`),
      ),
    )
  }
}

/** Refuses a list of a request that is too large for an event. @throws Refused (unprocessable) with the field */
export function requireListFits(field: string, list: readonly unknown[], most = MAX_LIST_BYTES): void {
  const bytes = jsonBytes(list)
  if (bytes <= most) return
  throw new Refused(
    refuse.unprocessable(`${field}: its entries have ${bytes} bytes together, but may have at most ${most}`),
  )
}

/** Returns the first members of a list that together have at most `most` bytes as JSON. */
export function cutList<T>(list: readonly T[], most = MAX_LIST_BYTES): T[] {
  let bytes = 2
  const end = list.findIndex((member) => {
    bytes += jsonBytes(member) + 1
    return bytes > most
  })
  return list.slice(0, end === -1 ? list.length : end)
}

/** Returns the longest beginning of a text with at most `most` bytes as JSON, in whole characters. */
export function cutText(text: string, most: number): string {
  // A UTF-16 unit takes at most six bytes, and the quotation marks two.
  if (6 * text.length + 2 <= most) return text
  let bytes = 2
  let end = 0
  for (const character of text) {
    bytes += jsonBytes(character) - 2
    // A copy: a substring would keep the whole string in memory.
    if (bytes > most) return Buffer.from(text.slice(0, end)).toString()
    end += character.length
  }
  return text
}
