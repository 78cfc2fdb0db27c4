/** Moments of a stream: the end of a replay, and the places of events. Pure. */
import type { Position, RecordedEvent } from '../../../events/store/event-store.ts'
import type { StreamPoint } from '../../../services/history/document-snapshots.ts'

/**
 * The end of a replay of a stream: a revision; a position in the log; or a time, ISO 8601 in UTC with milliseconds.
 * Clocks of servers differ a little. So a replay to a time also includes all events before the last event up to that
 * time, and all up to `position`, if given.
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
