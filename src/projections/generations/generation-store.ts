/** A read store that maps each collection and checkpoint to one of its generations. See `generations.ts`. */
import type {
  AnyCollection,
  Change,
  Changes,
  Checkpoint,
  ReadSnapshot,
  ReadStore,
  SharedCheckpoints,
} from '../store/read-store.ts'

/** Returns the stored name of a collection or checkpoint. Names have only letters, so letters encode the number. */
export function nameOf(name: string, generation: number): string {
  return generation === 0 ? name : `${name}_${inLetters(generation)}`
}

function inLetters(number: number): string {
  const last = String.fromCharCode(97 + (number % 26))
  return number < 26 ? last : inLetters(Math.floor(number / 26)) + last
}

/** Maps collections by `numberOf`, and those of a snapshot by `inSnapshot`. */
export function generationStore(
  store: ReadStore,
  numberOf: (name: string) => Promise<number>,
  inSnapshot: (snapshot: Pick<ReadStore, 'checkpoint'>, name: string) => Promise<number>,
): ReadStore {
  const storedAs = storedNameBy(numberOf)

  /** Returns the changes with the stored names of their collections, each looked up once per batch. */
  async function storedChanges(changes: readonly Change[]): Promise<Change[]> {
    const names = new Set(changes.map(({ collection }) => collection.name))
    const stored = new Map<string, string>()
    for (const name of names) stored.set(name, nameOf(name, await numberOf(name)))
    const moved = new Map<AnyCollection, AnyCollection>()
    return changes.map((change) => {
      const { collection } = change
      const known = moved.get(collection) ?? { ...collection, name: stored.get(collection.name) ?? '' }
      moved.set(collection, known)
      return { ...change, collection: known }
    })
  }

  const { shared, purge } = store
  const storedNames = async (names: readonly string[]) =>
    new Map(await Promise.all(names.map(async (name) => [nameOf(name, await numberOf(name)), name] as const)))
  const sharedHere: SharedCheckpoints | undefined = shared && {
    async read(names) {
      const stored = await storedNames(names)
      const found = await shared.read([...stored.keys()])
      return new Map([...found].map(([as, checkpoint]) => [stored.get(as) ?? as, checkpoint]))
    },
    take: async (name, before, after) => shared.take(nameOf(name, await numberOf(name)), before, after),
    async move(moved, holder) {
      const stored = await storedNames([...moved.keys()])
      const entries = [...stored].flatMap(([as, name]) => {
        const to = moved.get(name)
        return to === undefined ? [] : [[as, to] as const]
      })
      await shared.move(new Map(entries), holder)
    },
    release: async (name, holder, to) => shared.release(nameOf(name, await numberOf(name)), holder, to),
    request: async (name, by) => shared.request(nameOf(name, await numberOf(name)), by),
    remove: async (name, before) => shared.remove(nameOf(name, await numberOf(name)), before),
  }

  return {
    ...(sharedHere && { shared: sharedHere }),
    get: async (collection, id) => store.get(await storedAs(collection), id),
    getMany: async (collection, ids) => store.getMany(await storedAs(collection), ids),
    find: async (collection, filter, options) => store.find(await storedAs(collection), filter, options),
    rows: async (collection, filter, options) => store.rows(await storedAs(collection), filter, options),
    count: async (collection, filter) => store.count(await storedAs(collection), filter),
    page: async (collection, filter, options) => store.page(await storedAs(collection), filter, options),
    ids: async (collection, filter) => store.ids(await storedAs(collection), filter),
    range: async (collection, range) => store.range(await storedAs(collection), range),
    async snapshot() {
      const snapshot = await store.snapshot()
      // The generations may have been exchanged since: use the one of the snapshot.
      const numberThen = (name: string) => inSnapshot(snapshot, name)
      const wasStoredAs = storedNameBy(numberThen)
      const reads: Pick<ReadSnapshot, 'checkpoint' | 'range'> = {
        checkpoint: async (name) => snapshot.checkpoint(nameOf(name, await numberThen(name))),
        range: async (collection, range) => snapshot.range(await wasStoredAs(collection), range),
      }
      if (!snapshot.isIsolated) return { ...snapshot, ...reads }
      return {
        ...snapshot,
        ...reads,
        getMany: async (collection, ids) => snapshot.getMany(await wasStoredAs(collection), ids),
        count: async (collection) => snapshot.count(await wasStoredAs(collection)),
      }
    },
    prepare: async (collections) => store.prepare(await Promise.all(collections.map(storedAs))),
    clear: async (collection) => store.clear(await storedAs(collection)),
    drop: async (collection) => store.drop(await storedAs(collection)),
    checkpoint: async (name) => store.checkpoint(nameOf(name, await numberOf(name))),
    async checkpoints(names) {
      const stored = await Promise.all(
        names.map(async (name) => [name, nameOf(name, await numberOf(name))] as const),
      )
      const found = await store.checkpoints(stored.map(([, as]) => as))
      return new Map(
        stored.flatMap(([name, as]) => {
          const checkpoint = found.get(as)
          return checkpoint === undefined ? [] : [[name, checkpoint]]
        }),
      )
    },
    moveCheckpoint: async (name, before, after) =>
      store.moveCheckpoint(nameOf(name, await numberOf(name)), before, after),
    async apply(changes, checkpoints) {
      const moved = new Map<string, Checkpoint>()
      async function* stored() {
        for await (const list of listsOf(changes)) yield await storedChanges(list)
        for (const [name, to] of checkpoints) moved.set(nameOf(name, await numberOf(name)), to)
      }
      await store.apply(stored(), moved)
    },
    ...(purge && { purge: () => purge() }),
    ping: () => store.ping(),
    close: () => store.close(),
  }
}

const listsOf = (changes: Changes) => (Symbol.asyncIterator in changes ? changes : [changes])

/** Returns a function that maps a collection and its parts to the stored names of their generation. */
function storedNameBy(numberOf: (name: string) => Promise<number>) {
  return async function storedAs<C extends AnyCollection>(collection: C): Promise<C> {
    const stored = { ...collection, name: nameOf(collection.name, await numberOf(collection.name)) }
    if (collection.wordsIn === undefined) return stored
    const parts = Object.entries(collection.wordsIn).map(
      async ([field, of]) => [field, of && (await storedAs(of))] as const,
    )
    return { ...stored, wordsIn: Object.fromEntries(await Promise.all(parts)) }
  }
}
