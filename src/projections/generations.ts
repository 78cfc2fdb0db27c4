/**
 * Two generations of each collection in one read store: the one that queries read, and one that a rebuild
 * fills beside it. Callers name a collection as ever; one write decides which of the two that is.
 */
import { LOG_START } from '../events/event-store.ts'
import type { AnyCollection, Change, ReadSnapshot, ReadStore } from './read-store.ts'

export interface Generations {
  /** What queries read and the projector writes. */
  current: ReadStore
  /** The same collections, as a rebuild makes them anew. Checkpoints go with the collection of their name. */
  spare: ReadStore
  /** The spare generation becomes the current one, and the other way round: in one write. */
  exchange(collection: AnyCollection): Promise<void>
}

/** Which one is current stands among the checkpoints, so that no adapter needs to know of generations. */
const keyOf = (name: string) => `${name}.generation`
const nameOf = (name: string, second: boolean) => (second ? `${name}_b` : name)

type Checkpoints = Pick<ReadStore, 'checkpoint'>

const secondIsCurrent = async (store: Checkpoints, name: string) =>
  (await store.checkpoint(keyOf(name)))?.version === 1

/** `store` is closed by closing `current`. */
export function withGenerations(store: ReadStore): Generations {
  const known = new Map<string, Promise<boolean>>()

  /** Whether the second generation is current; asked of the store once. */
  function isSecond(name: string): Promise<boolean> {
    const answer = known.get(name) ?? secondIsCurrent(store, name)
    known.set(name, answer)
    // What failed once is asked again.
    answer.catch(() => known.delete(name))
    return answer
  }

  return {
    current: routed(store, isSecond, false),
    spare: routed(store, isSecond, true),
    async exchange({ name }) {
      const second = !(await isSecond(name))
      await store.apply([], new Map([[keyOf(name), { position: LOG_START, version: second ? 1 : 0 }]]))
      known.set(name, Promise.resolve(second))
    },
  }
}

/** The store with each collection and checkpoint led to one of its generations. */
function routed(
  store: ReadStore,
  currentIsSecond: (name: string) => Promise<boolean>,
  spare: boolean,
): ReadStore {
  const isSecond = async (name: string) => (await currentIsSecond(name)) !== spare
  const led = leadTo(isSecond)

  async function ledChanges(changes: readonly Change[]): Promise<Change[]> {
    const targets = new Map<string, AnyCollection>()
    for (const { collection } of changes) {
      if (!targets.has(collection.name)) targets.set(collection.name, await led(collection))
    }
    return changes.map((change) => ({
      ...change,
      collection: targets.get(change.collection.name) ?? change.collection,
    }))
  }

  return {
    get: async (collection, id) => store.get(await led(collection), id),
    getMany: async (collection, ids) => store.getMany(await led(collection), ids),
    find: async (collection, filter, options) => store.find(await led(collection), filter, options),
    count: async (collection, filter) => store.count(await led(collection), filter),
    ids: async (collection, filter) => store.ids(await led(collection), filter),
    range: async (collection, range) => store.range(await led(collection), range),
    async snapshot() {
      const snapshot = await store.snapshot()
      // As it was at that moment, which may be another one.
      const wasSecond = async (name: string) => (await secondIsCurrent(snapshot, name)) !== spare
      const then = leadTo(wasSecond)
      const passing = {
        checkpoint: async (name) => snapshot.checkpoint(nameOf(name, await wasSecond(name))),
        range: async (collection, range) => snapshot.range(await then(collection), range),
        close: () => snapshot.close(),
      } satisfies Omit<ReadSnapshot, 'isIsolated'>
      if (!snapshot.isIsolated) return { ...passing, isIsolated: false }
      return {
        ...passing,
        isIsolated: true,
        getMany: async (collection, ids) => snapshot.getMany(await then(collection), ids),
        count: async (collection) => snapshot.count(await then(collection)),
      }
    },
    prepare: async (collections) => store.prepare(await Promise.all(collections.map(led))),
    clear: async (collection) => store.clear(await led(collection)),
    checkpoint: async (name) => store.checkpoint(nameOf(name, await isSecond(name))),
    async apply(changes, checkpoints) {
      const moved = await Promise.all(
        [...checkpoints].map(async ([name, to]) => [nameOf(name, await isSecond(name)), to] as const),
      )
      await store.apply(await ledChanges(changes), new Map(moved))
    },
    ping: () => store.ping(),
    close: () => store.close(),
  }
}

function leadTo(isSecond: (name: string) => Promise<boolean>) {
  return async <C extends AnyCollection>(collection: C): Promise<C> => ({
    ...collection,
    name: nameOf(collection.name, await isSecond(collection.name)),
  })
}
