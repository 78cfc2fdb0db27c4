/**
 * Distinguishes damaged events of Mergelog from events of other applications. Only EventStoreDB can have the latter: the
 * embedded log has no other writer, and reports each unreadable event.
 */

/** A skipped event: of another application, or a damaged one of Mergelog. */
export interface PassedOver {
  stream: string
  revision: number
  position: number
  type: string
  /** Whether it was one of Mergelog's events before it was damaged. */
  isDamaged: boolean
}

const MEMBERS = ['"actor"', '"at"', '"correlationId"', '"causationId"', '"schema"']
/** Number of members that identify Mergelog's metadata: damage of a few bytes spoils one member. */
const MIN_MEMBERS = MEMBERS.length - 1

/** Whether an unreadable event has the metadata of Mergelog, whole or damaged. `metadata`: as the driver returns it. */
export function hasOurMetadata(metadata: unknown): boolean {
  const text =
    metadata instanceof Uint8Array ? Buffer.from(metadata).toString('latin1') : JSON.stringify(metadata)
  return text !== undefined && MEMBERS.filter((member) => text.includes(member)).length >= MIN_MEMBERS
}

// Advice for operators. `$all` has the events that reads of a stream do not return until a scavenge removes them.

export const repairOfCut = (stream: string, twice = '') =>
  `before the next scavenge, set the metadata of the stream ($$${stream}) without $maxCount, $maxAge and $tb${twice}: then it has all its events again`

/** Measured on 23.10.6: the first write ends the deletion, and sets a $tb behind the last event. */
export const repairOfDeleted = (stream: string) => repairOfCut(stream, ', twice')

/** A tombstone cannot be taken back. */
export const REPAIR_OF_TOMBSTONE =
  'before the next scavenge, stop the servers, run "mergelog export", and "mergelog import" into a new EventStoreDB: the export has all events of the stream'
