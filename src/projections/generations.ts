/**
 * Two generations of each collection in one read store: the current one, which queries read, and a spare one, which a
 * rebuild fills. Callers use the collection's usual name, and this file maps it to the stored name of a generation.
 * One write exchanges the two.
 */
import { LOG_START } from '../events/event-store.ts'
import type { AnyCollection, Change, ReadSnapshot, ReadStore } from './read-store.ts'

export interface Generations {
  /** The generation that queries read and the projector writes. */
  current: ReadStore
  /**
   * The generation that a rebuild fills. The checkpoint of a read model belongs to the generation of its collection.
   */
  spare: ReadStore
  /** Makes the spare generation the current one, and the current one the spare one, in one write. */
  exchange(collection: AnyCollection): Promise<void>
}

/** A checkpoint records which generation is current, so that the adapters need not know about generations. */
const keyOf = (name: string) => `${name}.generation`
/** The stored name of a collection or checkpoint. */
const nameOf = (name: string, second: boolean) => (second ? `${name}_b` : name)

type Checkpoints = Pick<ReadStore, 'checkpoint'>

const secondIsCurrent = async (store: Checkpoints, name: string) =>
  (await store.checkpoint(keyOf(name)))?.version === 1

/** Splits the store into two generations. To close `current` closes the store. */
export function withGenerations(store: ReadStore): Generations {
  const known = new Map<string, Promise<boolean>>()

  /** Whether the second generation is current. Reads it from the store only once. */
  function isSecond(name: string): Promise<boolean> {
    const answer = known.get(name) ?? secondIsCurrent(store, name)
    known.set(name, answer)
    // After a failure the next call reads it again.
    answer.catch(() => known.delete(name))
    return answer
  }

  return {
    current: generationStore(store, isSecond, false),
    spare: generationStore(store, isSecond, true),
    async exchange({ name }) {
      const second = !(await isSecond(name))
      await store.apply([], new Map([[keyOf(name), { position: LOG_START, version: second ? 1 : 0 }]]))
      known.set(name, Promise.resolve(second))
    },
  }
}

/** A read store that maps every collection and checkpoint to its current or its spare generation. */
function generationStore(
  store: ReadStore,
  currentIsSecond: (name: string) => Promise<boolean>,
  spare: boolean,
): ReadStore {
  const isSecond = async (name: string) => (await currentIsSecond(name)) !== spare
  const storedAs = storedNameBy(isSecond)

  async function storedChanges(changes: readonly Change[]): Promise<Change[]> {
    const targets = new Map<string, AnyCollection>()
    for (const { collection } of changes) {
      if (!targets.has(collection.name)) targets.set(collection.name, await storedAs(collection))
    }
    return changes.map((change) => ({
      ...change,
      collection: targets.get(change.collection.name) ?? change.collection,
    }))
  }

  return {
    get: async (collection, id) => store.get(await storedAs(collection), id),
    getMany: async (collection, ids) => store.getMany(await storedAs(collection), ids),
    find: async (collection, filter, options) => store.find(await storedAs(collection), filter, options),
    count: async (collection, filter) => store.count(await storedAs(collection), filter),
    ids: async (collection, filter) => store.ids(await storedAs(collection), filter),
    range: async (collection, range) => store.range(await storedAs(collection), range),
    async snapshot() {
      const snapshot = await store.snapshot()
      // The generations may have been exchanged since: use the one that was current in the snapshot.
      const wasSecond = async (name: string) => (await secondIsCurrent(snapshot, name)) !== spare
      const wasStoredAs = storedNameBy(wasSecond)
      const reads = {
        checkpoint: async (name) => snapshot.checkpoint(nameOf(name, await wasSecond(name))),
        range: async (collection, range) => snapshot.range(await wasStoredAs(collection), range),
        close: () => snapshot.close(),
      } satisfies Omit<ReadSnapshot, 'isIsolated'>
      if (!snapshot.isIsolated) return { ...reads, isIsolated: false }
      return {
        ...reads,
        isIsolated: true,
        getMany: async (collection, ids) => snapshot.getMany(await wasStoredAs(collection), ids),
        count: async (collection) => snapshot.count(await wasStoredAs(collection)),
      }
    },
    prepare: async (collections) => store.prepare(await Promise.all(collections.map(storedAs))),
    clear: async (collection) => store.clear(await storedAs(collection)),
    checkpoint: async (name) => store.checkpoint(nameOf(name, await isSecond(name))),
    async apply(changes, checkpoints) {
      const moved = await Promise.all(
        [...checkpoints].map(async ([name, to]) => [nameOf(name, await isSecond(name)), to] as const),
      )
      await store.apply(await storedChanges(changes), new Map(moved))
    },
    ping: () => store.ping(),
    close: () => store.close(),
  }
}

/** Returns a function that gives a collection the stored name of its generation. */
function storedNameBy(isSecond: (name: string) => Promise<boolean>) {
  return async <C extends AnyCollection>(collection: C): Promise<C> => ({
    ...collection,
    name: nameOf(collection.name, await isSecond(collection.name)),
  })
}
