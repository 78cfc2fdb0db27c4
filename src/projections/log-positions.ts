/** Finds positions of events. A position that is none cannot be continued from: a server with gaps refuses it. */
import { type EventStore, LOG_START, type Position, StoreUnavailable } from '../events/event-store.ts'
import { BrokenFile } from '../sqlite.ts'

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
