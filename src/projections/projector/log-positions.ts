/** Compares checkpoints with the events of the log. */
import { type EventStore, type RecordedEvent, StoreUnavailable } from '../../events/store/event-store.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import type { Checkpoint } from '../store/read-store.ts'

/**
 * Returns the identity of an event for a checkpoint, with its position. A checkpoint before the first event has none.
 */
export const placeOf = ({ position, id }: Pick<RecordedEvent, 'position' | 'id'>) => `${position}:${id}`

/** Whether a checkpoint has the identity of its event. */
const namesEvent = ({ position, event }: Pick<Checkpoint, 'position' | 'event'>) =>
  event?.startsWith(`${position}:`) === true

/** Whether the log certainly lacks the event of a checkpoint; false when a scavenge may have removed it. */
export async function isOfAnotherLog(events: EventStore, checkpoint: Checkpoint): Promise<boolean> {
  if (!namesEvent(checkpoint)) return false
  try {
    for await (const event of events.readPositions([checkpoint.position]))
      return placeOf(event) !== checkpoint.event
    return false
  } catch (error) {
    if (error instanceof StoreUnavailable || error instanceof BrokenFile) throw error
    // EventStoreDB refuses a position between records.
    return true
  }
}
