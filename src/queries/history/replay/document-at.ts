/** Moments of a stream: where a replay ends, and where events are. Pure. */
import type { Position, RecordedEvent } from '../../../events/store/event-store.ts'
import type { StreamPoint } from '../../../services/history/document-snapshots.ts'

/**
 * Where a replay of a stream ends: at a revision; at a position in the log; or at a time, ISO 8601 in UTC with
 * milliseconds. The times of events come from the servers that decided them, and their clocks differ a little. So a
 * replay to a time includes all events before the last one that is not later, and all up to `position`, if given.
 */
export type Until = { revision: number } | { position: Position } | { at: string; position?: Position }

export const pointOf = ({ revision, position, metadata }: RecordedEvent): StreamPoint => ({
  revision,
  position,
  at: metadata.at,
})

/** Whether the replay includes an event at that place. */
export function isUpTo({ revision, position, at }: StreamPoint, until: Until): boolean {
  if ('revision' in until) return revision <= until.revision
  if ('at' in until && at <= until.at) return true
  return until.position !== undefined && position <= until.position
}
