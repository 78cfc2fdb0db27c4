/**
 * Tells events of ours that were damaged from events that others wrote. Only EventStoreDB has both: the embedded log has
 * no other writer, and names each event that it cannot read.
 */

/** An event that a read passes over: it is not of the server's own, and not readable as one of ours. */
export interface PassedOver {
  stream: string
  revision: number
  position: number
  type: string
  /** Whether it was an event of ours before it was damaged. */
  isDamaged: boolean
}

const MEMBERS = ['"actor"', '"at"', '"correlationId"', '"causationId"', '"schema"']
/** Damage of a few bytes spoils one member of the metadata, and others do not happen to have so many of them. */
const ENOUGH = MEMBERS.length - 1

/** Whether an unreadable event has the metadata of Mergelog, whole or damaged. `metadata`: as the driver gives it. */
export function hasOurMetadata(metadata: unknown): boolean {
  const text =
    metadata instanceof Uint8Array ? Buffer.from(metadata).toString('latin1') : JSON.stringify(metadata)
  return text !== undefined && MEMBERS.filter((member) => text.includes(member)).length >= ENOUGH
}

// What an operator can do. The events of a stream that reads do not return are in `$all` until a scavenge removes them.

export const repairOfCut = (stream: string, twice = '') =>
  `before the next scavenge, set the metadata of the stream ($$${stream}) without $maxCount, $maxAge and $tb${twice}: then it has all its events again`

/** Measured on 23.10.6: the first write ends the deletion, and sets a $tb behind the last event. */
export const repairOfDeleted = (stream: string) => repairOfCut(stream, ', twice')

/** A tombstone cannot be taken back. */
export const REPAIR_OF_TOMBSTONE =
  'before the next scavenge, stop the servers, run "mergelog export", and "mergelog import" into a new EventStoreDB: the export has all events of the stream'
