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
  /** How long, in milliseconds, what a query began to read of an old generation is kept. */
  graceMs?: number
  /** Whether servers elsewhere read and write the same read models. */
  isShared?: boolean
}

/** Small, so that what the projector writes need not wait long for it. */
const BATCH = 250
const GRACE_MS = 10_000

export class RebuildUnderWay extends Error {
  override readonly name = 'RebuildUnderWay'
}

/** Other servers would go on writing the old generation, and take its place in the log for that of the new one. */
export class SharedReadModels extends Error {
  override readonly name = 'SharedReadModels'

  constructor() {
    super(
      'MONGODB_URL is set: other servers on the same read models would not learn that new ones took their ' +
        'place. Stop every server and drop its database (not mergelog_secrets): the next start makes them anew',
    )
  }
}

export interface Rebuilder {
  /**
   * @throws RebuildUnderWay when another rebuild is not over
   * @throws SharedReadModels when other servers may use the read models
   */
  requireFree(): void
  /**
   * Makes models anew, one after the other, one rebuild at a time. Whoever stops iterating before a model is done
   * leaves that model as it was.
   *
   * @throws what `requireFree` throws, when the iteration begins
   * @throws what a fold throws: then the old documents stay
   */
  rebuild(models: readonly ReadModel[]): AsyncGenerator<RebuildProgress>
  /**
   * Frees, `after` so many milliseconds, what spare generations hold: those of models that are rebuilt meanwhile
   * aside. A process that ended before it could do so has left them.
   */
  freeSpares(models: readonly ReadModel[], after?: number): Promise<void>
}

export function createRebuild(rebuilding: Rebuilding): Rebuilder {
  const { generations, signal, graceMs = GRACE_MS, isShared = false } = rebuilding
  const { spare } = generations
  /** How often each model was rebuilt: a rebuild that has begun clears for itself what an earlier one left. */
  const runs = new Map<string, number>()
  let isUnderWay = false

  async function freeSpares(models: readonly ReadModel[], after = 0): Promise<void> {
    // To another server it may be the current generation.
    if (isShared) return
    const before = new Map(runs)
    const isAsBefore = ({ name }: ReadModel) => runs.get(name) === before.get(name)
    if (after > 0) await delay(after, undefined, { signal, ref: false })
    for (const model of models) {
      signal.throwIfAborted()
      if ((await holdsAny(spare, model)) && isAsBefore(model)) await spare.clear(model.collection)
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
            // What fails here the next start does.
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

/** One that never had a rebuild has no tables even. */
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
