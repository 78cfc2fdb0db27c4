/**
 * A comment before and after one of its events. Its stream is read backwards from there, so a new comment is found at
 * once.
 */
import { decode } from '../../events/codec.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type { EventStore } from '../../events/store/event-store.ts'
import { type CommentDocument, commentFold } from '../../projections/models/comments/comments.fold.ts'
import { SERVER_CLIENT } from '../../queries/history/replay/replay-client.ts'
import { BATCH_EVENTS, waitForSlot } from '../../queries/history/replay/stream-batches.ts'

/** `before` is undefined when the event created the comment, `after` when it deleted it. */
export interface CommentChange {
  before: CommentDocument | undefined
  after: CommentDocument | undefined
}

/** @throws StoreUnavailable, UnreadableEvent */
export async function commentChange(
  store: EventStore,
  stream: string,
  revision: number,
  commentId: number,
): Promise<CommentChange> {
  let change: CommentChange = { before: undefined, after: undefined }
  for (const event of (await eventsOf(store, stream, revision, commentId)).reverse()) {
    change = { before: change.after, after: commentFold.evolve(change.after, event, `${commentId}`) }
  }
  return change
}

/** Returns the events of a comment, from a revision back to its creation. */
async function eventsOf(store: EventStore, stream: string, revision: number, commentId: number) {
  const found: Recorded<DomainEvent>[] = []
  let maxCount = 1
  for (let from = revision; from >= 0; from -= maxCount, maxCount = BATCH_EVENTS) {
    await waitForSlot(SERVER_CLIENT)
    for await (const recorded of store.readStream(stream, { direction: 'backwards', from, maxCount })) {
      const event = decode(recorded)
      if (!commentFold.touches(event).includes(`${commentId}`)) continue
      found.push(event)
      if (event.type === 'CommentAdded') return found
    }
  }
  return found
}
