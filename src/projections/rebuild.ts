/**
 * Makes a read model anew from the first event while the old one serves: into the spare generation of its
 * collection, and then an exchange between two batches of the projector. Nothing is lost when it dies half way:
 * the old one is still the current one.
 */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { decode } from '../events/codec.ts'
import { type EventStore, LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import type { Generations } from './generations.ts'
import type { Projector } from './projector.ts'
import type { ReadModel } from './read-model.ts'

export interface RebuildProgress {
  model: string
  /** Events that were replayed so far. */
  events: number
  /** Place in the log, and its end. */
  position: Position
  end: Position
  /** Queries read the new documents from now on. */
  done: boolean
}

export interface Rebuilding {
  events: Pick<EventStore, 'readAll' | 'lastPosition'>
  generations: Generations
  projector: Pick<Projector, 'exchange'>
  /** Told when queries read the new documents: what was remembered of the old ones is forgotten. */
  exchanged: (collection: string) => void
  /** Ends all of it. */
  signal: AbortSignal
}

/** Small, so that what the projector writes need not wait long for it. */
const BATCH = 250
/** What a query began to read of the old generation it can read to its end. */
const GRACE_MS = 10_000

export class RebuildUnderWay extends Error {
  override readonly name = 'RebuildUnderWay'
}

export type Rebuild = (models: readonly ReadModel[]) => AsyncGenerator<RebuildProgress>

/**
 * Makes models anew, one after the other, one rebuild at a time. Whoever stops iterating before a model is done
 * leaves that model as it was.
 *
 * @throws RebuildUnderWay when another rebuild is not over
 * @throws what a fold throws: then the old documents stay
 */
export function createRebuild(rebuilding: Rebuilding): Rebuild {
  const { generations, signal } = rebuilding
  let isUnderWay = false
  let runs = 0

  /** Frees what the old generation holds, when nobody reads it any more. */
  async function clearLater({ collection }: ReadModel): Promise<void> {
    const run = runs
    await delay(GRACE_MS, undefined, { signal, ref: false })
    if (run === runs) await generations.spare.clear(collection)
  }

  return async function* rebuild(models) {
    if (isUnderWay) throw new RebuildUnderWay('another rebuild is under way')
    isUnderWay = true
    runs += 1
    try {
      for (const model of models) {
        yield* rebuildModel(rebuilding, model)
        // The next rebuild clears it, if need be.
        clearLater(model).catch(() => {})
      }
    } finally {
      isUnderWay = false
    }
  }
}

async function* rebuildModel(
  { events, generations, projector, exchanged, signal }: Rebuilding,
  model: ReadModel,
): AsyncGenerator<RebuildProgress> {
  const { spare } = generations
  const { name, version, collection } = model
  let position = LOG_START
  let replayed = 0

  await spare.prepare([collection])
  await spare.clear(collection)

  async function replay(batch: readonly RecordedEvent[]): Promise<void> {
    const { changes, poison } = await model.advance(batch.map(decode), spare)
    if (poison !== undefined) throw poison.error
    position = batch.at(-1)?.position ?? position
    replayed += batch.length
    await spare.apply(changes, new Map())
    await nextTurn(undefined, { signal })
  }

  async function* replayUpTo(end: Position): AsyncGenerator<RebuildProgress> {
    for await (const batch of batches(events, position, end)) {
      await replay(batch)
      yield { model: name, events: replayed, position, end, done: false }
    }
  }

  yield* replayUpTo(await events.lastPosition())
  // What came meanwhile is little: the projector waits only for the rest.
  yield* replayUpTo(await events.lastPosition())
  await projector.exchange(name, async (end) => {
    for await (const batch of batches(events, position, end)) await replay(batch)
    await spare.apply([], new Map([[name, { position, version }]]))
    await generations.exchange(collection)
    exchanged(collection.name)
    return position
  })
  yield { model: name, events: replayed, position, end: position, done: true }
}

async function* batches(
  { readAll }: Pick<EventStore, 'readAll'>,
  after: Position,
  end: Position,
): AsyncGenerator<RecordedEvent[]> {
  if (after >= end) return
  let batch: RecordedEvent[] = []
  for await (const event of readAll({ from: after })) {
    if (event.position > end) break
    batch.push(event)
    if (batch.length < BATCH) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
