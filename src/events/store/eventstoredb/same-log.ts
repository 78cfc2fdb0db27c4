/**
 * Detects that the server's log was replaced by an older copy or an empty one. Numbers and ids would be used twice, and
 * read models with later events would skip new ones. So such a log is neither written nor followed.
 */
import type { RecordedEvent as ServerEvent } from '@eventstore/db-client'
import { LogReplaced, type Position, StoreUnavailable } from '../event-store.ts'
import { type ReadLimits, readBatches } from './batches.ts'
import type { Client } from './client.ts'
import { toReadPosition, toSafe } from './events.ts'

/** An event of the log, by any writer. */
interface Place {
  id: string
  position: Position
}

/**
 * Returns the event at a position, or the next one if a scavenge has removed it; undefined at the end, and at an invalid
 * position.
 */
export async function firstFrom(
  client: Client,
  reading: ReadLimits,
  position: Position,
): Promise<{ event: ServerEvent; position: Position } | undefined> {
  const from = toReadPosition(position)
  const open = () => client.readAll({ direction: 'forwards', fromPosition: from, maxCount: 1 })
  try {
    for await (const batch of readBatches(open, (read) => read.cancel(), reading)) {
      for (const { event } of batch) {
        if (event?.position !== undefined)
          return { event, position: toSafe(event.position.commit, 'position') }
      }
    }
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error
    // The server refuses a position at which no record begins.
  }
  return undefined
}

export function createSameLog(client: () => Client, reading: ReadLimits) {
  /** The last read event, if any. An appended event may not be readable yet. */
  let known: Place | undefined
  /** Whether the last check found another log. */
  let isReplaced = false

  /**
   * Call it after connecting, before the connection is used.
   * @throws LogReplaced when the log lacks an event that it had before
   */
  async function check(): Promise<void> {
    if (known === undefined) return
    const { id, position } = known
    const found = await firstFrom(client(), reading, position)
    isReplaced = found === undefined || (found.position === position && found.event.id !== id)
    if (isReplaced) throw replaced(position)
  }

  return {
    seen(place: Place): void {
      if (known !== undefined && known.position >= place.position) return
      known = { id: place.id, position: place.position }
    },
    check,
    /** Like `check`, but only when the end of the log is suspicious. */
    async checkEnd(end: Position): Promise<void> {
      if (isReplaced || (known !== undefined && end < known.position)) await check()
    },
  }
}

const replaced = (position: Position) =>
  new LogReplaced(
    `EVENTSTORE_URL: the server now has a different log, or an older copy: it lacks the event at position ${position}. ` +
      'Nothing is written to it. Restore the log, or stop all servers of Mergelog and restore the data that belongs to this one',
  )
