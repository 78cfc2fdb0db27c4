/**
 * Rebuilds a read model from the first event while queries read the old documents. The new documents go into the spare
 * generation of the collection. Then the two generations are exchanged between two batches of the projector. If the
 * process dies before that, nothing is lost: the old generation is still the current one.
 */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { decode } from '../events/codec.ts'
import { type EventStore, LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import type { Generations } from './generations.ts'
import type { Projector } from './projector.ts'
import type { ReadModel } from './read-model.ts'

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
}

export interface Rebuilding {
  events: Pick<EventStore, 'readAll' | 'lastPosition'>
  generations: Generations
  projector: Pick<Projector, 'exchange'>
  /** Called when queries read the new documents, so that caches drop the old ones. */
  exchanged: (collection: string) => void
  /** Aborts when the server stops; this ends every rebuild. */
  signal: AbortSignal
  /** How long an old generation is kept for queries that already read from it, in milliseconds. */
  graceMs?: number
  /** Whether other servers read and write the same read models. */
  isShared?: boolean
}

/** The number of events in one batch. Small, so that the projector's writes need not wait long. */
const BATCH = 250
const GRACE_MS = 10_000

/** Another rebuild has not ended yet. */
export class RebuildUnderWay extends Error {
  override readonly name = 'RebuildUnderWay'
}

/**
 * Other servers use the same read models. They would continue to write the old generation, and take its checkpoint for
 * the checkpoint of the new one.
 */
export class SharedReadModels extends Error {
  override readonly name = 'SharedReadModels'

  constructor() {
    super(
      'MONGODB_URL is set: other servers with the same read models would not notice that they were replaced. ' +
        'Stop every server and drop its database (not mergelog_secrets): the next start makes them again',
    )
  }
}

export interface Rebuilder {
  /**
   * Checks that a rebuild may begin.
   * @throws RebuildUnderWay when another rebuild has not ended
   * @throws SharedReadModels when other servers may use the read models
   */
  requireFree(): void
  /**
   * Rebuilds the models one after another. Only one rebuild can run at a time. If the caller stops the iteration
   * before a model is done, that model keeps its old documents.
   *
   * @throws the errors of `requireFree`, when the iteration begins
   * @throws the error of a fold; then the old documents stay
   */
  rebuild(models: readonly ReadModel[]): AsyncGenerator<RebuildProgress>
  /**
   * Empties the spare generations after `after` milliseconds, except those of models that are rebuilt meanwhile.
   * Called at the start, too: an earlier process may have ended before it emptied them.
   */
  freeSpares(models: readonly ReadModel[], after?: number): Promise<void>
}

export function createRebuild(rebuilding: Rebuilding): Rebuilder {
  const { generations, signal, graceMs = GRACE_MS, isShared = false } = rebuilding
  const { spare } = generations
  /** The number of rebuilds of each model. `freeSpares` skips a model with a new one, which clears the spare itself. */
  const runs = new Map<string, number>()
  let isUnderWay = false

  async function freeSpares(models: readonly ReadModel[], after = 0): Promise<void> {
    // For another server it may be the current generation.
    if (isShared) return
    const before = new Map(runs)
    const isUnchanged = ({ name }: ReadModel) => runs.get(name) === before.get(name)
    if (after > 0) await delay(after, undefined, { signal, ref: false })
    for (const model of models) {
      signal.throwIfAborted()
      if ((await holdsAny(spare, model)) && isUnchanged(model)) await spare.clear(model.collection)
    }
  }

  function requireFree(): void {
    if (isShared) throw new SharedReadModels()
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
            // If this fails, the next start does it.
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

/** Whether the spare generation has documents. A model that was never rebuilt does not even have its tables. */
async function holdsAny(spare: Generations['spare'], { collection }: ReadModel): Promise<boolean> {
  const first = await spare.range(collection, { limit: 1 }).catch(() => [])
  return first.length > 0
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
  // Replay the events that came meanwhile. The projector then waits only for the few that are left.
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
