/** Where the replay of a time ends. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { EventStore } from '../events/event-store.ts'
import { perStore } from '../per-store.ts'
import { isWithinUntil, type Stand, standOf, type Until } from './document-at.ts'

/** What is known of a stream's past is known of so many events together: a millisecond's work or two. */
export const SEGMENT = 250
const MAX_SEGMENTS = 20_000

/**
 * By stream and last revision, as a stream's past never changes: the least revision, position and time of a segment,
 * which need not be one event's.
 */
const segmentsOf = perStore((): LRUCache<string, Stand> => new LRUCache({ max: MAX_SEGMENTS }))

/**
 * The revision of the last event that is within, -1 when none is. Clocks differ, so that any event may be it, however
 * late the one before it was: the stream is read from its end, but for segments known to have only later ones.
 *
 * @throws StoreUnavailable
 */
export async function lastWithin(store: EventStore, stream: string, until: Until): Promise<number> {
  const known = segmentsOf(store)
  const end = await readBack(store, stream, until, { maxCount: 1 })
  if (end.within !== undefined) return end.within
  let from = end.least?.revision ?? -1
  while (from >= 0) {
    const key = `${stream} ${from}`
    let least = known.get(key)
    if (least === undefined || isWithinUntil(least, until)) {
      const read = await readBack(store, stream, until, { from, maxCount: (from % SEGMENT) + 1 })
      if (read.within !== undefined || read.least === undefined) return read.within ?? -1
      least = read.least
      known.set(key, least)
      await nextTurn()
    }
    from = least.revision - 1
  }
  return -1
}

/** Events from there backwards until one is within: that one's revision, or the least of all. */
async function readBack(
  store: EventStore,
  stream: string,
  until: Until,
  part: { from?: number; maxCount: number },
): Promise<{ within?: number; least?: Stand }> {
  let least: Stand | undefined
  for await (const event of store.readStream(stream, { direction: 'backwards', ...part })) {
    const stand = standOf(event)
    if (isWithinUntil(stand, until)) return { within: stand.revision }
    least = { ...stand, at: least !== undefined && least.at < stand.at ? least.at : stand.at }
  }
  return least === undefined ? {} : { least }
}
