/**
 * Rebuilds a read model from the first event while queries read the old documents. The new documents go into the spare
 * generation of the collection, and the generations are exchanged between two batches of the projector. After a crash
 * before that, the old generation is still current.
 */
import { setTimeout as delay, setImmediate as nextIteration } from 'node:timers/promises'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
} from '../../events/store/event-store.ts'
import type { Generations } from '../generations/generations.ts'
import { createGaps } from './log-gaps.ts'
import { placeOf } from './log-positions.ts'
import type { Projector } from './projector.ts'
import type { ReadModel } from './read-model.ts'
import { eventsFor, readBatch } from './readable-events.ts'

export interface RebuildProgress {
  model: string
  /** The number of events replayed so far. */
  events: number
  /** The position of the last replayed event. */
  position: Position
  /** The position of the last event to replay. */
  end: Position
  /** True in the last report: from now on queries read the new documents. */
  done: boolean
  /** In the last report: parts of streams that the log, and so the documents, lack. At most 100. */
  lacks?: readonly string[]
}

export interface Rebuilding {
  events: Pick<EventStore, 'readAll' | 'lastPosition'>
  generations: Generations
  projector: Pick<Projector, 'exchange' | 'hold'>
  /** Called when queries read the new documents, so that caches drop the old ones. */
  exchanged: (collection: string) => void
  /** Aborts when the server stops; this ends every rebuild. */
  signal: AbortSignal
  /** Default `GRACE_MS`. */
  graceMs?: number
}

/** Number of events per batch: small, so that the projector's writes do not wait long. */
const BATCH = 250
/** Time that an old generation stays for queries that already read from it, in milliseconds. */
const GRACE_MS = 10_000

export class RebuildUnderWay extends Error {
  override readonly name = 'RebuildUnderWay'
}

export interface Rebuilder {
  /**
   * Checks that a rebuild may begin.
   * @throws RebuildUnderWay when another rebuild of this server has not ended
   */
  requireFree(): void
  /**
   * Rebuilds the models one after another. Only one rebuild can run at a time. If the caller stops the iteration
   * before a model is done, that model keeps its old documents.
   *
   * @throws RebuildUnderWay when the iteration begins and another rebuild of this server has not ended
   * @throws ReplacedMeanwhile when another server was faster; then its documents stay
   * @throws the error of a fold; then the old documents stay
   */
  rebuild(models: readonly ReadModel[]): AsyncGenerator<RebuildProgress>
  /**
   * Empties the spare generations after `after` milliseconds, except those of running rebuilds. Also called at startup,
   * for spares of an earlier process, and periodically in a shared store, which keeps a generation of another version
   * for ten minutes without a writer.
   */
  freeSpares(models: readonly ReadModel[], after?: number): Promise<void>
}

export function createRebuild(rebuilding: Rebuilding): Rebuilder {
  const { generations, signal, graceMs = GRACE_MS } = rebuilding
  /** Number of rebuilds by model. `freeSpares` skips a model with a new one, which empties the spare itself. */
  const runs = new Map<string, number>()
  let isUnderWay = false

  async function freeSpares(models: readonly ReadModel[], after = 0): Promise<void> {
    const before = new Map(runs)
    if (after > 0) await delay(after, undefined, { signal, ref: false })
    for (const { name, collection } of models) {
      signal.throwIfAborted()
      if (runs.get(name) === before.get(name)) await generations.free(collection)
    }
  }

  function requireFree(): void {
    if (isUnderWay) throw new RebuildUnderWay('another rebuild is under way')
  }

  return {
    requireFree,
    async *rebuild(models) {
      requireFree()
      isUnderWay = true
      try {
        for (const model of models) {
          runs.set(model.name, (runs.get(model.name) ?? 0) + 1)
          try {
            yield* rebuildModel(rebuilding, model)
          } finally {
            // If this fails, the next start retries it.
            freeSpares([model], graceMs).catch(() => {})
          }
        }
      } finally {
        isUnderWay = false
      }
    },
    freeSpares,
  }
}

async function* rebuildModel(
  { events, generations, projector, exchanged, signal }: Rebuilding,
  model: ReadModel,
): AsyncGenerator<RebuildProgress> {
  const { spare } = generations
  const { name, version, collection } = model
  let position = LOG_START
  let event: string | undefined
  let replayed = 0

  const gaps = createGaps()

  await projector.hold(name)
  const discard = await generations.begin(collection)
  let isComplete = false

  async function replay(batch: readonly RecordedEvent[]): Promise<void> {
    for (const event of batch) gaps.next(event)
    const own = eventsFor(model, readBatch(batch), position)
    const { changes, poison = own.poison } = await model.advance(own.events, spare)
    if (poison !== undefined) throw poison.error
    const last = batch.at(-1)
    if (last !== undefined) {
      position = last.position
      event = placeOf(last)
    }
    replayed += batch.length
    await spare.apply(changes, new Map())
    await nextIteration(undefined, { signal })
  }

  async function* replayUpTo(end: Position): AsyncGenerator<RebuildProgress> {
    for await (const batch of batches(events, position, end)) {
      await replay(batch)
      yield { model: name, events: replayed, position, end, done: false }
    }
  }

  try {
    yield* replayUpTo(await events.lastPosition())
    // Replays the events appended meanwhile, so that the projector waits only for the few remaining ones.
    yield* replayUpTo(await events.lastPosition())
    await projector.exchange(name, async (end) => {
      for await (const batch of batches(events, position, end)) await replay(batch)
      // From here on the new documents may be current, even if this fails.
      isComplete = true
      await generations.exchange(collection, { position, version, ...(event !== undefined && { event }) })
      exchanged(collection.name)
      return position
    })
  } finally {
    // If this fails, a later rebuild retries it.
    if (!isComplete) await discard().catch(() => {})
  }
  const lacks = gaps.found()
  yield {
    model: name,
    events: replayed,
    position,
    end: position,
    done: true,
    ...(lacks.length > 0 && { lacks }),
  }
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
