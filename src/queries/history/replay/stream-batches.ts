/** Reads a stream in small batches, each in its own slice, so that replays do not block the event loop. */

import { nextSlice } from '../../../concurrency/event-loop.ts'
import type { EventStore, RecordedEvent } from '../../../events/store/event-store.ts'
import type { ReplayClient } from './replay-client.ts'

/** Number of events per batch, whose reading and folding takes one or two milliseconds. */
export const BATCH_EVENTS = 100

/**
 * Yields the events of a stream, at most `maxCount`, in batches that are full except for the last.
 * @throws StoreUnavailable, and the reason of `gone`
 */
export async function* streamBatches(
  store: EventStore,
  stream: string,
  { from, maxCount = Number.POSITIVE_INFINITY }: { from: number; maxCount?: number },
  replayClient: ReplayClient,
): AsyncGenerator<RecordedEvent[]> {
  let next = from
  for (let left = maxCount; left > 0; left -= BATCH_EVENTS) {
    const count = Math.min(left, BATCH_EVENTS)
    await waitForSlot(replayClient)
    const part: RecordedEvent[] = []
    for await (const event of store.readStream(stream, { from: next, maxCount: count })) {
      part.push(event)
      next = event.revision + 1
    }
    if (part.length > 0) yield part
    if (part.length < count) return
  }
}

/** Waits for the client's slot in the event loop. @throws the reason of `gone` */
export async function waitForSlot({ client, gone }: ReplayClient): Promise<void> {
  await nextSlice(client)
  gone?.throwIfAborted()
}
