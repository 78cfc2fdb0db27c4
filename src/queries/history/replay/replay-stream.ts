/** Replays a stream: reads it up to a moment and folds it. */
import { decode } from '../../../events/codec.ts'
import type { EventStore } from '../../../events/store/event-store.ts'
import type { Fold } from '../../../projections/projector/read-model.ts'
import type { Replayed, StreamPoint } from '../../../services/history/document-snapshots.ts'
import type { HistoryServices } from '../../../services/services.ts'
import { isUpTo, pointOf, type Until } from './document-at.ts'
import { lastRevision } from './last-revision.ts'
import { type ReplayClient, SERVER_CLIENT } from './replay-client.ts'
import { BATCH_EVENTS, streamBatches } from './stream-batches.ts'

/**
 * Returns the document with that id after the events up to `until`. `start` is an earlier replay of the stream to
 * continue from. `onBatch` is called after each full batch with the replay so far.
 * @throws StoreUnavailable, UnreadableEvent, and the reason of `replayClient.gone`
 */
export async function replayStream<D extends object>(
  services: HistoryServices,
  stream: string,
  fold: Fold<D>,
  id: string,
  until: Until,
  start: Replayed<D> = { document: undefined, last: undefined },
  onBatch: (replayed: Replayed<D>) => void = () => {},
  replayClient: ReplayClient = SERVER_CLIENT,
): Promise<Replayed<D>> {
  const end = 'at' in until ? { revision: await lastRevision(services, stream, until, replayClient) } : until
  let { document, last } = start
  const from = last === undefined ? 0 : last.revision + 1
  const options = 'revision' in end ? { from, maxCount: Math.max(end.revision - from + 1, 0) } : { from }
  for await (const part of streamBatches(services.events, stream, options, replayClient)) {
    const events = part.map(decode)
    const count = events.findLastIndex((event) => isUpTo(pointOf(event), end)) + 1
    const latest = events[count - 1]
    if (latest === undefined) break
    for (const event of events.slice(0, count)) {
      if (fold.touches(event).includes(id)) document = fold.evolve(document, event, id)
    }
    last = pointOf(latest)
    // The end of the replay, or of the stream.
    if (count < BATCH_EVENTS) break
    onBatch({ document, last })
  }
  return { document, last }
}

/** Returns the first and the last event of a stream; undefined when it is empty. */
export async function rangeOf(
  store: EventStore,
  stream: string,
): Promise<{ first: StreamPoint; last: StreamPoint } | undefined> {
  const end = async (direction: 'forwards' | 'backwards'): Promise<StreamPoint | undefined> => {
    for await (const event of store.readStream(stream, { direction, maxCount: 1 })) return pointOf(event)
    return undefined
  }
  const [first, last] = await Promise.all([end('forwards'), end('backwards')])
  return first && last && { first, last }
}
