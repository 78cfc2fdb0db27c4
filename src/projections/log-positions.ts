/** Finds positions of events. A position that is none cannot be continued from: a server with gaps refuses it. */
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../events/event-store.ts'
import { BrokenFile } from '../sqlite.ts'
import type { Checkpoint } from './read-store.ts'

/**
 * What a checkpoint keeps of its event. It names the position, too: an older program moves a checkpoint and leaves this as
 * it was.
 */
export const placeOf = ({ position, id }: Pick<RecordedEvent, 'position' | 'id'>) => `${position}:${id}`

/** Whether a checkpoint says which event it is at. */
export const namesEvent = ({ position, event }: Pick<Checkpoint, 'position' | 'event'>) =>
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

/** Whether there is an event at a position. A server that has none there may answer with an error. */
export async function isPositionOfEvent(events: EventStore, position: Position): Promise<boolean> {
  try {
    for await (const _ of events.readPositions([position])) return true
    return false
  } catch (error) {
    if (error instanceof StoreUnavailable || error instanceof BrokenFile) throw error
    return false
  }
}

/** The position of the last event that is not after `limit`. Reads the log once. @throws the reason of the signal */
export async function lastEventUpTo(
  events: EventStore,
  limit: Position,
  signal: AbortSignal,
): Promise<Position> {
  let last = LOG_START
  for await (const { position } of events.readAll()) {
    if (position > limit || signal.aborted) break
    last = position
  }
  signal.throwIfAborted()
  return last
}
