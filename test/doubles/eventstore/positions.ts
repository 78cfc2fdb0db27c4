/**
 * Positions as a real server gives them: offsets in a file. They grow with gaps, and only the beginning of a record can
 * be named. The embedded store counts its events 1, 2, 3, …, so a record's offset is computed from its number.
 */
import type { Position } from '../../../src/events/store/event-store.ts'

/** More than any offset within a slot, so that offsets grow. */
const SLOT = 64

/** The first number beyond those that any log reaches. */
const END = Number.MAX_SAFE_INTEGER

/** The offset of the record with this number. Offsets are not a multiple of anything. */
export function offsetOf(number: Position): number {
  return number <= 0 ? 0 : number * SLOT + ((number * 37) % 61)
}

/** The number of the record that begins at an offset; undefined when none can begin there. */
function numberAt(offset: number): Position | undefined {
  const number = Math.floor(offset / SLOT)
  return offsetOf(number) === offset ? number : undefined
}

/** The position is inside of a record, not at its beginning. */
export class NotARecord extends Error {
  override readonly name = 'NotARecord'
}

/** The events removed by a scavenge. */
export type Scavenged = ReturnType<typeof createScavenged>

export function createScavenged() {
  const gone = new Set<number>()
  let end = -1
  return {
    /** Removes the events at these offsets. A scavenge works on whole files of the log, here on all up to the last. */
    remove(offsets: readonly number[]): void {
      for (const offset of offsets) gone.add(offset)
      end = Math.max(end, ...offsets)
    },
    has: (number: Position) => gone.has(offsetOf(number)),
    /** Whether this part of the log was scavenged: then offsets are looked up, and any offset is valid. */
    includes: (offset: number) => offset <= end,
  }
}

/** The number of the first record that begins at an offset or after it. */
function numberFrom(offset: number): Position {
  const number = Math.floor(offset / SLOT)
  return offsetOf(number) < offset ? number + 1 : number
}

/**
 * The number of the record at an offset that a client names, for a log that ends with the record `last`. Forwards,
 * every offset beyond the beginning of the last record is valid and gives `last + 1`. Backwards, only the end is.
 *
 * @throws NotARecord when the offset is not the beginning of a record
 */
export function requireRecord(
  offset: number,
  last: Position,
  backwards: boolean,
  scavenged: Scavenged,
): Position {
  if (scavenged.includes(offset)) return numberFrom(offset)
  if (offset >= END || (offset > offsetOf(last) && !backwards)) return last + 1
  const number = numberAt(offset)
  if (number === undefined || number > last + 1) throw new NotARecord(`there is no record at ${offset}`)
  return number
}
