/**
 * Notices that the server has another log than before: an older copy was put in its place, or an empty one. Its numbers
 * and ids would be given twice, and read models would skip its events, because they hold later ones. So nothing is
 * written to such a log, and nothing of it is followed.
 */
import type { RecordedEvent as ServerEvent } from '@eventstore/db-client'
import { LogReplaced, type Position, StoreUnavailable } from './event-store.ts'
import { type ReadLimits, readBatches } from './eventstoredb-batches.ts'
import type { Client } from './eventstoredb-client.ts'
import { toReadPosition, toSafe } from './eventstoredb-events.ts'

/** An event of the log, whoever wrote it. */
interface Place {
  id: string
  position: Position
}

export function createSameLog(client: () => Client, reading: ReadLimits) {
  /** The last event that was read; undefined before the first one. What was only appended may not be readable yet. */
  let known: Place | undefined
  /** Whether the last look found another log. */
  let isReplaced = false

  /** The event at a position, or the one after it when a scavenge has removed it; undefined when there is none. */
  async function eventAt(position: Position): Promise<ServerEvent | undefined> {
    const from = toReadPosition(position)
    const open = () => client().readAll({ direction: 'forwards', fromPosition: from, maxCount: 1 })
    try {
      for await (const batch of readBatches(open, (read) => read.cancel(), reading)) {
        for (const { event } of batch) if (event !== undefined) return event
      }
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      // The server refuses a position at which no record begins.
    }
    return undefined
  }

  /**
   * To be called after a connection was made, before anything is written or followed by it.
   * @throws LogReplaced when the log lacks what it has shown before
   */
  async function check(): Promise<void> {
    if (known === undefined) return
    const { id, position } = known
    const event = await eventAt(position)
    const found = event?.position === undefined ? undefined : toSafe(event.position.commit, 'position')
    isReplaced = found === undefined || (found === position && event?.id !== id)
    if (isReplaced) throw replaced(position)
  }

  return {
    seen(place: Place): void {
      if (known !== undefined && known.position >= place.position) return
      known = { id: place.id, position: place.position }
    },
    check,
    /** As `check`, but costs nothing unless there is a reason for it: the log ends here. */
    async checkEnd(end: Position): Promise<void> {
      if (isReplaced || (known !== undefined && end < known.position)) await check()
    },
  }
}

const replaced = (position: Position) =>
  new LogReplaced(
    `EVENTSTORE_URL: the server has another log than before, or an older copy: it lacks the event at position ${position}. ` +
      'Nothing is written to it. Bring the log back, or stop all servers of Mergelog and restore what belongs to this one',
  )
