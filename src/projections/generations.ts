/**
 * Generations of each collection in one read store: the current one, which queries read, and a spare one, which a
 * rebuild fills. Callers use the collection's usual name, and this file maps it to the stored name of a generation.
 * One write makes the spare generation the current one.
 *
 * An embedded store has two generations, which take turns. In a store that several servers share, each rebuild has a
 * new one, so that no server ever writes into what another one has begun or has put away.
 */
import { LOG_START, StoreUnavailable } from '../events/event-store.ts'
import type { AnyCollection, Change, Checkpoint, ReadSnapshot, ReadStore } from './read-store.ts'

export interface Generations {
  /** The generation that queries read and the projector writes. */
  current: ReadStore
  /**
   * The generation that a rebuild fills. The checkpoint of a read model belongs to the generation of its collection.
   */
  spare: ReadStore
  /** Whether other servers use the same store. */
  isShared: boolean
  /**
   * Makes the spare generation one that no other server fills. A rebuild begins with this. Resolves to a function that
   * removes what the rebuild has written, when it fails before `exchange`.
   */
  begin(collection: AnyCollection): Promise<() => Promise<void>>
  /**
   * Makes the spare generation the current one, and the current one the spare one, in one write.
   * @throws ReplacedMeanwhile when another server has exchanged them since `begin`
   */
  exchange(collection: AnyCollection): Promise<void>
  /**
   * The collections whose generations another server has exchanged. For each of them `spare` is now the new one, until
   * `take` is called. Until then queries read the old generation, and are refused once it may be gone.
   */
  replaced<C extends AnyCollection>(collections: readonly C[]): Promise<C[]>
  /** Takes the generation that another server has made the current one. */
  take(collection: AnyCollection): void
  /** The number of the current generation. It grows with each exchange in a shared store. */
  numberOf(collection: AnyCollection): Promise<number>
  /** Removes the documents of generations that nobody reads: in a shared store, those before the one with this number. */
  free(collection: AnyCollection, before: number): Promise<void>
}

/** Another server has rebuilt the same read model and was faster. Its documents stay. */
export class ReplacedMeanwhile extends Error {
  override readonly name = 'ReplacedMeanwhile'

  constructor(model: string) {
    super(`another server has rebuilt ${model} meanwhile`)
  }
}

/**
 * A checkpoint records which generation is current (`version`), and the highest number that was given to one
 * (`position`). So the adapters need not know about generations.
 */
const keyOf = (name: string) => `${name}.generation`

/** The stored name of a collection or checkpoint: names have only letters, so the number is written in letters. */
export function nameOf(name: string, generation: number): string {
  return generation === 0 ? name : `${name}_${inLetters(generation)}`
}

function inLetters(number: number): string {
  const last = String.fromCharCode(97 + (number % 26))
  return number < 26 ? last : inLetters(Math.floor(number / 26)) + last
}

/** How long a server may rely on what it has read about the generations of a shared store, in milliseconds. */
export const KNOWN_FOR_MS = 5000
/**
 * An old generation is kept for twice as long as servers rely on what they know, counted from the exchange. This is the
 * part of that time in which it is read.
 */
const READ_WHILE_OLD = 1.8
/** How many earlier generations are looked for when they are removed: more than rebuilds can have failed. */
const EARLIER = 30
const MAX_ATTEMPTS = 10

interface Known {
  current: number
  spare: number
  /** When the store said that `current` is the current one, by `performance.now()`. */
  readAt: number
  /** Another server has made the spare one the current one, after `readAt`. */
  isOld?: true
}

type Checkpoints = Pick<ReadStore, 'checkpoint'>

const currentIn = async (store: Checkpoints, name: string) =>
  (await store.checkpoint(keyOf(name)))?.version ?? 0

const beingReplaced = (name: string) =>
  new StoreUnavailable(`another server has rebuilt the read model ${name}; this one is about to take it`)

/** Splits the store into generations. To close `current` closes the store. */
export function withGenerations(store: ReadStore, isShared = false, knownForMs = KNOWN_FOR_MS): Generations {
  const known = new Map<string, Known>()
  const reading = new Map<string, Promise<Known>>()
  /** Collections that this server exchanges right now: what the store says of them may be its own change. */
  const exchanging = new Set<string>()

  /** Whether an answer may be used without asking the store again. */
  function isFresh({ readAt, isOld }: Known): boolean {
    return !isShared || performance.now() - readAt < knownForMs * (isOld ? READ_WHILE_OLD : 1)
  }

  /** What is known of a collection. Asks the store the first time, and again when the answer may be too old. */
  function knownOf(name: string): Known | Promise<Known> {
    const answer = known.get(name)
    if (answer !== undefined && (isFresh(answer) || exchanging.has(name))) return answer
    if (answer?.isOld) throw beingReplaced(name)
    const running = reading.get(name)
    if (running !== undefined) return running
    const started = read(name, answer).finally(() => reading.delete(name))
    reading.set(name, started)
    return started
  }

  async function read(name: string, before: Known | undefined): Promise<Known> {
    const readAt = performance.now()
    const current = await currentIn(store, name)
    const meanwhile = known.get(name)
    if (meanwhile !== undefined && (meanwhile !== before || exchanging.has(name))) return meanwhile
    if (before === undefined || before.current === current) {
      const now = { current, spare: before?.spare ?? (isShared ? current : 1 - current), readAt }
      known.set(name, now)
      return now
    }
    return becomesOld(name, before, current)
  }

  /** Notes that another server has exchanged the generations since `before` was read. */
  function becomesOld(name: string, before: Known, current: number): Known {
    const old: Known = { ...before, spare: current, isOld: true }
    known.set(name, old)
    if (!isFresh(old)) throw beingReplaced(name)
    return old
  }

  /** Changes the row of a collection in a shared store, in one step. */
  async function moveRow(
    name: string,
    next: (row: Checkpoint | undefined) => Checkpoint,
  ): Promise<Checkpoint> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const row = await store.checkpoint(keyOf(name))
      const after = next(row)
      if (await store.moveCheckpoint(keyOf(name), row, after)) return after
    }
    throw new StoreUnavailable(`too many servers rebuild ${name} at the same time`)
  }

  return {
    current: generationStore(
      store,
      async (name) => (await knownOf(name)).current,
      (stored) => stored,
    ),
    spare: generationStore(
      store,
      async (name) => (known.get(name) ?? (await knownOf(name))).spare,
      (stored, name) => (isShared ? (known.get(name)?.spare ?? stored) : 1 - stored),
    ),
    isShared,
    async begin(collection) {
      const { name } = collection
      const { current } = await knownOf(name)
      // The embedded store's other generation is emptied by `free`.
      if (!isShared) return async () => {}
      const { position } = await moveRow(name, (row) => {
        if ((row?.version ?? 0) !== current) throw new ReplacedMeanwhile(name)
        return { position: Math.max(row?.position ?? 0, current) + 1, version: current }
      })
      known.set(name, { current, spare: position, readAt: performance.now() })
      // By its own number: meanwhile `spare` may mean what another server has rebuilt.
      return () => store.drop({ ...collection, name: nameOf(name, position) })
    },
    async exchange({ name }) {
      const { current, spare } = known.get(name) ?? (await knownOf(name))
      exchanging.add(name)
      try {
        if (isShared) {
          await moveRow(name, (row) => {
            if ((row?.version ?? 0) !== current) throw new ReplacedMeanwhile(name)
            return { position: Math.max(row?.position ?? 0, spare), version: spare }
          })
        } else await store.apply([], new Map([[keyOf(name), { position: LOG_START, version: spare }]]))
        known.set(name, { current: spare, spare: current, readAt: performance.now() })
      } finally {
        exchanging.delete(name)
      }
    },
    async replaced(collections) {
      if (!isShared) return []
      const readAt = performance.now()
      const rows = await store.checkpoints(collections.map(({ name }) => keyOf(name)))
      return collections.filter(({ name }) => {
        const current = rows.get(keyOf(name))?.version ?? 0
        const before = known.get(name)
        // What this server exchanged after the question, or exchanges right now, was not exchanged by another one.
        if (exchanging.has(name) || (before !== undefined && before.readAt > readAt)) return false
        if (before !== undefined && before.current !== current) {
          known.set(name, { ...before, spare: current, isOld: true })
          return true
        }
        known.set(name, { current, spare: before?.spare ?? current, readAt })
        return false
      })
    },
    take({ name }) {
      const before = known.get(name)
      if (before !== undefined) {
        known.set(name, { current: before.spare, spare: before.current, readAt: performance.now() })
      }
    },
    numberOf: async ({ name }) => (await knownOf(name)).current,
    async free(collection, before) {
      const { name } = collection
      if (!isShared) {
        const { spare } = await knownOf(name)
        await store.clear({ ...collection, name: nameOf(name, spare) })
        return
      }
      for (let number = Math.max(0, before - EARLIER); number < before; number++) {
        await store.drop({ ...collection, name: nameOf(name, number) })
      }
    },
  }
}

/**
 * A read store that maps every collection and checkpoint to one of its generations.
 * @param inSnapshot gives the generation from the current one that is stored in a snapshot
 */
function generationStore(
  store: ReadStore,
  numberOf: (name: string) => Promise<number>,
  inSnapshot: (stored: number, name: string) => number,
): ReadStore {
  const storedAs = storedNameBy(numberOf)

  /** The changes, with the stored names of their collections: a batch has many changes of few collections. */
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

  return {
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
      // The generations may have been exchanged since: use the one that was current in the snapshot.
      const numberThen = async (name: string) => inSnapshot(await currentIn(snapshot, name), name)
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
      const moved = await Promise.all(
        [...checkpoints].map(async ([name, to]) => [nameOf(name, await numberOf(name)), to] as const),
      )
      await store.apply(await storedChanges(changes), new Map(moved))
    },
    ping: () => store.ping(),
    close: () => store.close(),
  }
}

/** Returns a function that gives a collection, and those of its parts, the stored name of its generation. */
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
