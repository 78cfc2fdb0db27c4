/**
 * Generations of each collection in one read store: the current one, which queries read, and a spare one, which a
 * rebuild fills. `generation-store.ts` maps the name of a collection to a generation. One write makes the spare
 * generation current. This file is for the embedded store, which alternates two generations; `shared-generations.ts` is
 * for a shared store.
 */
import { LOG_START } from '../../events/store/event-store.ts'
import type { AnyCollection, Checkpoint, ReadStore } from '../store/read-store.ts'
import { generationStore } from './generation-store.ts'

export interface Generations {
  /** The generation that queries read and the projector writes. */
  current: ReadStore
  /** The generation that a rebuild fills. Checkpoints belong to the generation of their collection. */
  spare: ReadStore
  /**
   * Empties the spare generation for a fold of this version. A rebuild begins with it. Resolves to a function that
   * removes the rebuild's documents when it fails before `exchange`.
   */
  begin(collection: AnyCollection): Promise<() => Promise<void>>
  /**
   * Swaps the generations: the spare one has all events up to the checkpoint and becomes current.
   * @throws ReplacedMeanwhile when another server has exchanged them since `begin`
   */
  exchange(collection: AnyCollection, checkpoint: Checkpoint): Promise<void>
  /** Removes the documents of unused generations of a collection. */
  free(collection: AnyCollection): Promise<void>
  /** Called with the name of a collection when another server has exchanged its generations. */
  onExchanged(listener: (collection: string) => void): void
}

/** Another server has rebuilt the same read model first. Its documents stay. */
export class ReplacedMeanwhile extends Error {
  override readonly name = 'ReplacedMeanwhile'

  constructor(model: string) {
    super(`another server has rebuilt ${model} meanwhile`)
  }
}

/** The `version` of a checkpoint records the current generation, so adapters need not know about generations. */
const keyOf = (name: string) => `${name}.generation`

/** Splits an embedded store into generations. Closing `current` closes the store. */
export function withGenerations(store: ReadStore): Generations {
  const known = new Map<string, Promise<number>>()

  const currentIn = async (snapshot: Pick<ReadStore, 'checkpoint'>, name: string) =>
    (await snapshot.checkpoint(keyOf(name)))?.version ?? 0

  function currentOf(name: string): Promise<number> {
    const answer = known.get(name) ?? currentIn(store, name)
    known.set(name, answer)
    answer.catch(() => known.delete(name))
    return answer
  }

  const current = generationStore(store, currentOf, currentIn)
  const spare = generationStore(
    store,
    async (name) => 1 - (await currentOf(name)),
    async (snapshot, name) => 1 - (await currentIn(snapshot, name)),
  )
  return {
    current,
    spare,
    async begin(collection) {
      await spare.prepare([collection])
      await spare.clear(collection)
      // `free` empties it.
      return async () => {}
    },
    async exchange({ name }, checkpoint) {
      await spare.apply([], new Map([[name, checkpoint]]))
      const next = 1 - (await currentOf(name))
      await store.apply([], new Map([[keyOf(name), { position: LOG_START, version: next }]]))
      known.set(name, Promise.resolve(next))
    },
    async free(collection) {
      // A model that was never rebuilt lacks the tables of its spare generation.
      const [first] = await spare.range(collection, { limit: 1 }).catch(() => [])
      if (first !== undefined) await spare.clear(collection)
    },
    onExchanged() {},
  }
}
