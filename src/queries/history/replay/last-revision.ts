/** Finds the last event of a stream up to a time. */
import type { EventStore } from '../../../events/store/event-store.ts'
import type { StreamPoint } from '../../../services/history/document-snapshots.ts'
import type { HistoryServices } from '../../../services/services.ts'
import { isUpTo, pointOf, type Until } from './document-at.ts'
import { type ReplayClient, SERVER_CLIENT } from './replay-client.ts'
import { BATCH_EVENTS, waitForSlot } from './stream-batches.ts'

/** Number of events in a segment. */
export const SEGMENT = BATCH_EVENTS

/**
 * Returns the revision of the last event of a stream up to a time; -1 without one. Clocks of servers differ, so times
 * may go backwards along the stream. So the stream is read from its end, without segments that are known to be later.
 * @throws StoreUnavailable, and the reason of `replayClient.gone`
 */
export async function lastRevision(
  { events, historyCaches }: HistoryServices,
  stream: string,
  until: Until,
  replayClient: ReplayClient = SERVER_CLIENT,
): Promise<number> {
  const known = historyCaches.segments
  await waitForSlot(replayClient)
  const end = await readBack(events, stream, until, { maxCount: 1 })
  if (end.found !== undefined) return end.found
  let from = end.least?.revision ?? -1
  while (from >= 0) {
    const key = `${stream} ${from}`
    let least = known.get(key)
    if (least === undefined || isUpTo(least, until)) {
      await waitForSlot(replayClient)
      const read = await readBack(events, stream, until, { from, maxCount: (from % SEGMENT) + 1 })
      if (read.found !== undefined || read.least === undefined) return read.found ?? -1
      least = read.least
      known.set(key, least)
    }
    from = least.revision - 1
  }
  return -1
}

/** Reads backwards until it finds an event up to `until`. Returns its revision, or the least values of all events read. */
async function readBack(
  store: EventStore,
  stream: string,
  until: Until,
  part: { from?: number; maxCount: number },
): Promise<{ found?: number; least?: StreamPoint }> {
  let least: StreamPoint | undefined
  for await (const event of store.readStream(stream, { direction: 'backwards', ...part })) {
    const point = pointOf(event)
    if (isUpTo(point, until)) return { found: point.revision }
    least = { ...point, at: least !== undefined && least.at < point.at ? least.at : point.at }
  }
  return least === undefined ? {} : { least }
}
