/** Which event a checkpoint is at. */
import { type EventStore, type RecordedEvent, StoreUnavailable } from '../../events/store/event-store.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import type { Checkpoint } from '../store/read-store.ts'

/** What a checkpoint keeps of its event. It names the position, too: a checkpoint of before the first event leaves it. */
export const placeOf = ({ position, id }: Pick<RecordedEvent, 'position' | 'id'>) => `${position}:${id}`

/** Whether a checkpoint says which event it is at. */
const namesEvent = ({ position, event }: Pick<Checkpoint, 'position' | 'event'>) =>
  event?.startsWith(`${position}:`) === true

/**
 * Whether the log surely lacks the event of a checkpoint. A scavenge may have removed that event: then nothing is known.
 */
export async function isOfAnotherLog(events: EventStore, checkpoint: Checkpoint): Promise<boolean> {
  if (!namesEvent(checkpoint)) return false
  try {
    for await (const event of events.readPositions([checkpoint.position]))
      return placeOf(event) !== checkpoint.event
    return false
  } catch (error) {
    if (error instanceof StoreUnavailable || error instanceof BrokenFile) throw error
    // The server refuses a position at which no record begins.
    return true
  }
}
