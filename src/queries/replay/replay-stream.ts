/** Replaying a stream: it is read up to a moment, and folded. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { decode } from '../../events/codec.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type { EventStore } from '../../events/event-store.ts'
import type { Fold } from '../../projections/read-model.ts'
import { isUpTo, pointOf, type StreamPoint, type Until } from './document-at.ts'
import { lastRevision } from './last-revision.ts'

export interface Replayed<D extends object> {
  /** Undefined when the document did not exist. */
  document: D | undefined
  /** The last event that was folded; undefined when there was none. */
  last: StreamPoint | undefined
}

/** Events that are folded in one turn of the event loop: one or two milliseconds of work. */
const EVENTS_PER_TURN = 250

/**
 * The document with that id after the events up to `until`. `start`: an earlier replay of the same stream to continue
 * from. `onTurn` is called after each full turn with the replay up to there.
 *
 * @throws StoreUnavailable, UnreadableEvent, and the reason of `gone` when nobody waits for it any more
 */
export async function replayStream<D extends object>(
  store: EventStore,
  stream: string,
  fold: Fold<D>,
  id: string,
  until: Until,
  start: Replayed<D> = { document: undefined, last: undefined },
  onTurn: (replayed: Replayed<D>) => void = () => {},
  gone?: AbortSignal,
): Promise<Replayed<D>> {
  const end = 'at' in until ? { revision: await lastRevision(store, stream, until, gone) } : until
  let { document, last } = start
  const from = last === undefined ? 0 : last.revision + 1
  const options = 'revision' in end ? { from, maxCount: Math.max(end.revision - from + 1, 0) } : { from }
  for await (const events of inTurns(store, stream, options)) {
    const count = events.findLastIndex((event) => isUpTo(pointOf(event), end)) + 1
    const latest = events[count - 1]
    if (latest === undefined) break
    for (const event of events.slice(0, count)) {
      if (fold.touches(event).includes(id)) document = fold.evolve(document, event, id)
    }
    last = pointOf(latest)
    if (count < events.length) break
    onTurn({ document, last })
    gone?.throwIfAborted()
  }
  return { document, last }
}

/** Reads a stream in parts. Each part has its own turn, so that a long stream does not delay requests. */
async function* inTurns(store: EventStore, stream: string, options: { from: number; maxCount?: number }) {
  let part: Recorded<DomainEvent>[] = []
  for await (const event of store.readStream(stream, options)) {
    part.push(decode(event))
    if (part.length < EVENTS_PER_TURN) continue
    yield part
    part = []
    await nextTurn()
  }
  if (part.length > 0) yield part
}

/** The first and the last event of a stream; undefined when it is empty. */
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
