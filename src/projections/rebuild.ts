/**
 * Rebuilds a read model from the first event while queries read the old documents. The new documents go into the spare
 * generation of the collection. Then the two generations are exchanged between two batches of the projector. If the
 * process dies before that, nothing is lost: the old generation is still the current one.
 */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { type EventStore, LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import { type Generations, KNOWN_FOR_MS, ReplacedMeanwhile } from './generations.ts'
import { createGaps } from './log-gaps.ts'
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
  /** In the last report: parts of streams that the log lacks, so that the documents lack them too. At most 100. */
  lacks?: readonly string[]
}

export interface Rebuilding {
  events: Pick<EventStore, 'readAll' | 'lastPosition'>
  generations: Generations
  projector: Pick<Projector, 'exchange'>
  /** Called when queries read the new documents, so that caches drop the old ones. */
  exchanged: (collection: string) => void
  /** Aborts when the server stops; this ends every rebuild. */
  signal: AbortSignal
  /**
   * How long an old generation is kept for queries that already read from it, in milliseconds. In a shared store it is
   * longer than other servers rely on what they know (`KNOWN_FOR_MS`).
   */
  graceMs?: number
}

/** The number of events in one batch. Small, so that the projector's writes need not wait long. */
const BATCH = 250
/** Other servers read an old generation for almost this long: see `generations.ts`. */
const GRACE_MS = 2 * KNOWN_FOR_MS

/** Another rebuild has not ended yet. */
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
   * Empties the spare generations after `after` milliseconds, except those of models that are rebuilt meanwhile.
   * Called at the start, too: an earlier process may have ended before it emptied them.
   */
  freeSpares(models: readonly ReadModel[], after?: number): Promise<void>
  /**
   * Takes the documents that other servers have rebuilt in the same store. To be called again and again, more often than
   * `KNOWN_FOR_MS`. Nothing happens with an embedded store.
   */
  takeRebuilt(models: readonly ReadModel[]): Promise<void>
}

export function createRebuild(rebuilding: Rebuilding): Rebuilder {
  const { generations, signal, graceMs = GRACE_MS } = rebuilding
  const { spare, isShared } = generations
  /** The number of rebuilds of each model. `freeSpares` skips a model with a new one, which clears the spare itself. */
  const runs = new Map<string, number>()
  let isUnderWay = false

  async function freeSpares(models: readonly ReadModel[], after = 0): Promise<void> {
    const before = new Map(runs)
    const isUnchanged = ({ name }: ReadModel) => runs.get(name) === before.get(name)
    const numbers = await Promise.all(models.map(({ collection }) => generations.numberOf(collection)))
    // Other servers may still read what this one has just put away.
    const wait = isShared ? Math.max(after, graceMs) : after
    if (wait > 0) await delay(wait, undefined, { signal, ref: false })
    for (const [i, model] of models.entries()) {
      signal.throwIfAborted()
      if (!isShared) {
        // A model that was never rebuilt does not even have the tables of its spare generation.
        const [first] = await spare.range(model.collection, { limit: 1 }).catch(() => [])
        if (first === undefined || !isUnchanged(model)) continue
      }
      await generations.free(model.collection, numbers[i] ?? 0)
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
          } catch (error) {
            // A server that was faster has also removed the generations before its own.
            const [replaced] = await generations.replaced([model.collection]).catch(() => [])
            throw replaced === undefined ? error : new ReplacedMeanwhile(model.name)
          } finally {
            // If this fails, the next start does it.
            freeSpares([model], graceMs).catch(() => {})
          }
        }
      } finally {
        isUnderWay = false
      }
    },
    freeSpares,
    async takeRebuilt(models) {
      const collections = await generations.replaced(models.map(({ collection }) => collection))
      for (const model of models) {
        if (collections.includes(model.collection)) await takeOver(rebuilding, model)
      }
    },
  }
}

/** Takes the generation that another server has made: brings it up to this server's position, and reads from it. */
async function takeOver(
  { events, generations, projector, exchanged }: Rebuilding,
  model: ReadModel,
): Promise<void> {
  const { name, version, collection } = model
  const { spare } = generations
  await projector.exchange(name, async (end) => {
    const checkpoint = await spare.checkpoint(name)
    if (checkpoint?.version !== version) {
      throw new Error(
        `another version of Mergelog has rebuilt the read model ${name}: start this server again`,
      )
    }
    let { position } = checkpoint
    for await (const batch of batches(events, position, end)) {
      const own = eventsFor(model, readBatch(batch), position)
      const { changes, poison = own.poison } = await model.advance(own.events, spare)
      if (poison !== undefined) throw poison.error
      position = batch.at(-1)?.position ?? position
      await spare.apply(changes, new Map())
    }
    generations.take(collection)
    exchanged(collection.name)
    return position
  })
}

async function* rebuildModel(
  { events, generations, projector, exchanged, signal }: Rebuilding,
  model: ReadModel,
): AsyncGenerator<RebuildProgress> {
  const { spare } = generations
  const { name, version, collection } = model
  let position = LOG_START
  let replayed = 0

  const gaps = createGaps()

  const discard = await generations.begin(collection)
  let isComplete = false

  async function replay(batch: readonly RecordedEvent[]): Promise<void> {
    for (const event of batch) gaps.next(event)
    const own = eventsFor(model, readBatch(batch), position)
    const { changes, poison = own.poison } = await model.advance(own.events, spare)
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

  try {
    await spare.prepare([collection])
    if (!generations.isShared) await spare.clear(collection)
    yield* replayUpTo(await events.lastPosition())
    // Replay the events that came meanwhile. The projector then waits only for the few that are left.
    yield* replayUpTo(await events.lastPosition())
    await projector.exchange(name, async (end) => {
      for await (const batch of batches(events, position, end)) await replay(batch)
      await spare.apply([], new Map([[name, { position, version }]]))
      // From here on the new documents may be the current ones, even if this fails.
      isComplete = true
      await generations.exchange(collection)
      exchanged(collection.name)
      return position
    })
  } finally {
    // If this fails, a later rebuild does it.
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
