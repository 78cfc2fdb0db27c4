/**
 * Generations in a store that several servers share. Each number is used once, so a server never writes into a
 * generation that another has begun or removed. Each version of a fold has its own current generation: during a rolling
 * upgrade, the documents of both folds exist.
 */

import type { Membership } from '../../events/nodes/nodes.ts'
import { LOG_START, StoreUnavailable } from '../../events/store/event-store.ts'
import type { Checkpoint, LeasedCheckpoint, ReadStore, SharedCheckpoints } from '../store/read-store.ts'
import { generationStore, nameOf } from './generation-store.ts'
import { type Generations, ReplacedMeanwhile } from './generations.ts'

/** Its `position` is the highest generation number in use. */
const numbersOf = (name: string) => `${name}.generation`

/** Its `version` is the current generation of a fold's version. */
const rowOf = (name: string, version: number) => `${name}.v${version}`

/** Number of the latest generations that are checked for orphans, more than can have failed. */
const EARLIER = 30
const MAX_ATTEMPTS = 10
/** Time that a generation of another version stays without a writer, in milliseconds: its servers may restart. */
const UNHELD_MS = 600_000
/**
 * Time that a replaced generation stays for running reads, in milliseconds. Other nodes learn of the new one within a
 * second; a read takes at most 30 s, and may be repeated.
 */
const REPLACED_MS = 120_000

interface Known {
  current: number
  spare: number
}

/**
 * Splits a shared store into generations. `versions` has the fold version of each collection. Closing `current` closes
 * the store.
 */
export function sharedGenerations(
  store: ReadStore,
  shared: SharedCheckpoints,
  versions: ReadonlyMap<string, number>,
  { self, isGone }: Membership,
  unheldMs = UNHELD_MS,
): Generations {
  const known = new Map<string, Promise<Known>>()
  let exchanged: (collection: string) => void = () => {}
  /** Generations without a writer, as first seen without one. */
  const unheld = new Map<string, { position: number; since: number }>()

  const currentIn = async ({ checkpoint }: Pick<ReadStore, 'checkpoint'>, name: string) => {
    const version = versions.get(name)
    // A checkpoint of a process has no collection.
    if (version === undefined) return 0
    const row = (await checkpoint(rowOf(name, version))) ?? (await checkpoint(numbersOf(name)))
    return row?.version ?? 0
  }

  function knownOf(name: string): Promise<Known> {
    const answer = known.get(name) ?? currentIn(store, name).then((current) => ({ current, spare: current }))
    known.set(name, answer)
    answer.catch(() => known.delete(name))
    return answer
  }

  const know = (name: string, current: number, spare: number) =>
    void known.set(name, Promise.resolve({ current, spare }))

  /** Reserves an unused generation number. */
  async function newNumber(name: string): Promise<number> {
    const isFirstUsed = (await store.checkpoint(name)) !== undefined
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const row = await store.checkpoint(numbersOf(name))
      const highest = row === undefined ? (isFirstUsed ? 0 : -1) : Math.max(row.position, row.version)
      const after: Checkpoint = { position: highest + 1, version: row?.version ?? 0 }
      if (await store.moveCheckpoint(numbersOf(name), row, after)) return highest + 1
    }
    throw new StoreUnavailable(`too many servers create generations of ${name} at the same time`)
  }

  /** Chooses the generation of this version unless another server has done so. */
  async function choose(name: string, version: number): Promise<void> {
    const row = await store.checkpoint(rowOf(name, version))
    if (row === undefined) {
      // A store from an older version has no such rows: its generation is of its checkpoint's version.
      const earlier = (await store.checkpoint(numbersOf(name)))?.version ?? 0
      const isOurs = (await store.checkpoint(nameOf(name, earlier)))?.version === version
      const number = isOurs ? earlier : await newNumber(name)
      await store.moveCheckpoint(rowOf(name, version), undefined, { position: LOG_START, version: number })
    }
    const current = await currentIn(store, name)
    know(name, current, current)
  }

  /** Reads checkpoints and current generations, which another server may have exchanged. */
  async function readCurrent(names: readonly string[]): Promise<Map<string, LeasedCheckpoint>> {
    const wanted = await Promise.all(
      names.map(async (name) => {
        const version = versions.get(name)
        const { current } = version === undefined ? { current: 0 } : await knownOf(name)
        return { name, current, row: version === undefined ? '' : rowOf(name, version) }
      }),
    )
    const found = await shared.read(wanted.flatMap(({ name, current, row }) => [row, nameOf(name, current)]))
    const replaced = wanted.filter(({ row, current }) => (found.get(row)?.version ?? current) !== current)
    for (const { name, row, current } of replaced) {
      know(name, found.get(row)?.version ?? current, current)
      exchanged(name)
    }
    if (replaced.length > 0) return readCurrent(names)
    return new Map(
      wanted.flatMap(({ name, current }) => {
        const checkpoint = found.get(nameOf(name, current))
        return checkpoint === undefined ? [] : [[name, checkpoint]]
      }),
    )
  }

  const current = generationStore(store, async (name) => (await knownOf(name)).current, currentIn)
  const spare = generationStore(
    store,
    async (name) => (await knownOf(name)).spare,
    async (_, name) => (await knownOf(name)).spare,
  )

  async function isHeld(name: string, number: number, { holder }: LeasedCheckpoint): Promise<boolean> {
    if (holder === undefined) return false
    if (holder === self().id) return number === (await knownOf(name)).spare
    return !(await isGone(holder))
  }

  /** Whether a generation is abandoned. */
  async function isAbandoned(name: string, number: number, checkpoint: LeasedCheckpoint): Promise<boolean> {
    const key = nameOf(name, number)
    if (await isHeld(name, number, checkpoint)) {
      unheld.delete(key)
      return false
    }
    const isOurs = checkpoint.version === versions.get(name)
    const stays = isOurs ? Math.min(REPLACED_MS, unheldMs) : unheldMs
    const before = unheld.get(key)
    if (before?.position === checkpoint.position) return performance.now() - before.since >= stays
    unheld.set(key, { position: checkpoint.position, since: performance.now() })
    return false
  }

  return {
    current: {
      ...current,
      async prepare(collections) {
        for (const { name } of collections) {
          const version = versions.get(name)
          if (version !== undefined) await choose(name, version)
        }
        await current.prepare(collections)
      },
      ...(current.shared && { shared: { ...current.shared, read: readCurrent } }),
    },
    spare,
    async begin(collection) {
      const { name } = collection
      const { current } = await knownOf(name)
      const number = await newNumber(name)
      const stored = { ...collection, name: nameOf(name, number) }
      const empty = { position: LOG_START, version: versions.get(name) ?? 0, holder: self().id }
      await shared.take(stored.name, undefined, empty)
      know(name, current, number)
      await spare.prepare([collection])
      return async () => {
        await store.drop(stored)
        await shared.remove(stored.name, empty)
      }
    },
    async exchange({ name }, checkpoint) {
      const { version } = checkpoint
      const { current, spare: next } = await knownOf(name)
      const holder = self().id
      await shared.move(new Map([[nameOf(name, next), checkpoint]]), holder)
      const row = (number: number) => ({ position: LOG_START, version: number })
      if (!(await store.moveCheckpoint(rowOf(name, version), row(current), row(next))))
        throw new ReplacedMeanwhile(name)
      know(name, next, current)
      // If this fails, it counts as leased until this server is gone.
      await shared.release(nameOf(name, current), holder).catch(() => {})
    },
    async free(collection) {
      const { name } = collection
      const { current } = await knownOf(name)
      const latest = (await store.checkpoint(numbersOf(name)))?.position ?? 0
      const numbers = Array.from({ length: EARLIER }, (_, i) => latest - i).filter(
        (n) => n >= 0 && n !== current,
      )
      const found = await shared.read(numbers.map((number) => nameOf(name, number)))
      for (const number of numbers) {
        const stored = { ...collection, name: nameOf(name, number) }
        const checkpoint = found.get(stored.name)
        if (checkpoint === undefined || !(await isAbandoned(name, number, checkpoint))) continue
        // A server that has taken the generation meanwhile keeps it.
        if (await shared.remove(stored.name, checkpoint)) await store.drop(stored)
      }
    },
    onExchanged(listener) {
      exchanged = listener
    },
  }
}
