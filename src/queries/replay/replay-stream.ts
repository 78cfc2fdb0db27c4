/** Reads a stream from its beginning up to a moment, and folds it. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { decode } from '../../events/codec.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type { EventStore } from '../../events/event-store.ts'
import type { Fold } from '../../projections/read-model.ts'
import { documentAt, isUpTo, pointOf, type StreamPoint, type Until } from './document-at.ts'
import { lastRevision } from './last-revision.ts'

export interface Replayed<D extends object> {
  /** Undefined: it was not there. */
  document: D | undefined
  /** Undefined: nothing had happened. */
  last: StreamPoint | undefined
}

/** So many events are folded in one turn: a millisecond's work or two. */
const EVENTS_PER_TURN = 250

/**
 * The document with that id as the stream had it then. `start`: an earlier replay of the same, to go on from.
 * `passed`: told of replays on the way, after each turn.
 *
 * @throws StoreUnavailable, UnreadableEvent
 */
export async function replayStream<D extends object>(
  store: EventStore,
  stream: string,
  fold: Fold<D>,
  id: string,
  until: Until,
  start: Replayed<D> = { document: undefined, last: undefined },
  passed: (replayed: Replayed<D>) => void = () => {},
): Promise<Replayed<D>> {
  const end = 'at' in until ? { revision: await lastRevision(store, stream, until) } : until
  let { document, last } = start
  const from = last === undefined ? 0 : last.revision + 1
  const options = 'revision' in end ? { from, maxCount: Math.max(end.revision - from + 1, 0) } : { from }
  for await (const events of inTurns(store, stream, options)) {
    const count = events.findLastIndex((event) => isUpTo(pointOf(event), end)) + 1
    const latest = events[count - 1]
    if (latest === undefined) break
    document = documentAt(fold, id, events.slice(0, count), document)
    last = pointOf(latest)
    if (count < events.length) break
    passed({ document, last })
  }
  return { document, last }
}

/** A stream in parts, each in a turn of its own: a long one must let requests through. */
async function* inTurns(
  store: EventStore,
  stream: string,
  options: { from: number; maxCount?: number },
): AsyncGenerator<Recorded<DomainEvent>[]> {
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

/** First and last event of a stream; undefined when it has none. */
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
