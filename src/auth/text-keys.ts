/** The keys that seal the texts of events, in the secrets' store. */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Static, Type } from 'typebox'
import { coalesce } from '../concurrency/coalesce.ts'
import { unpooledBuffer } from '../concurrency/unpooled-buffer.ts'
import { KEY_BYTES } from '../events/sealing/seal.ts'
import type { Erased } from '../events/sealing/sealed-texts.ts'
import type { TextKey, TextKeys } from '../events/sealing/text-keys.ts'
import type { Change, Collection, ReadStore } from '../projections/store/read-store.ts'
import { checkOf } from '../storage/checked-json.ts'

/** A key (base64url), or its destruction: actor and time. */
const TextKeyDocument = Type.Union([
  Type.Object({ key: Type.String() }),
  Type.Object({
    erased: Type.Object({
      by: Type.Union([Type.Object({ id: Type.Integer(), login: Type.String() }), Type.Null()]),
      at: Type.String(),
    }),
  }),
])
type TextKeyDocument = Static<typeof TextKeyDocument>
const isTextKey = checkOf(TextKeyDocument)

/** By the id of the key, which the sealed text names. */
export const textKeyCollection: Collection<TextKeyDocument> = { name: 'text_keys', indexes: [], arrays: [] }

/** The position of a destroyed key is later: no write of a key replaces it. */
const MADE = 0
const DESTROYED = 1

/** Number of keys in the first block, and in the largest. A larger block follows one that is used up quickly. */
const FIRST_BLOCK = 64
const LARGEST_BLOCK = 2048
/** Intended lifetime of a block, in milliseconds. */
const LASTS_MS = 1000
/** Maximum number of cached keys, about 200 bytes each. */
const MAX_KEYS = 20_000
const BATCH = 1000

/** Creates the keys in a store, which must have the collection: `secretCollections`. */
export function createTextKeys(secrets: ReadStore): TextKeys {
  let known = newCache()
  /** Unused keys, the next one last. */
  let free: TextKey[] = []
  let size = FIRST_BLOCK
  let madeAt = 0
  const making = coalesce<void>()

  /** Creates the next block. Concurrent callers share it. */
  const make = () => making('', makeBlock)

  async function makeBlock(): Promise<void> {
    const now = performance.now()
    size = now - madeAt < LASTS_MS ? Math.min(2 * size, LARGEST_BLOCK) : FIRST_BLOCK
    madeAt = now
    // The ids of a block are neighbours in the index, and so are those of blocks that follow each other.
    const block = `${Date.now().toString(36).padStart(9, '0')}${randomBytes(6).toString('base64url')}`
    const bytes = randomBytes(size * KEY_BYTES)
    const made = Array.from({ length: size }, (_, i): TextKey => {
      // A subarray would keep the whole block in memory.
      const key = unpooledBuffer(bytes.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES))
      return { id: `${block}.${i.toString(36).padStart(3, '0')}`, key }
    })
    await secrets.apply(
      made.map(({ id, key }): Change => {
        const body: TextKeyDocument = { key: key.toString('base64url') }
        return { op: 'put', collection: textKeyCollection, id, position: MADE, body }
      }),
      new Map(),
    )
    free = [...made.reverse(), ...free]
  }

  async function stored(ids: readonly string[]): Promise<Map<string, Buffer | Erased>> {
    const found = new Map<string, Buffer | Erased>()
    for (let i = 0; i < ids.length; i += BATCH) {
      for (const { id, body } of await secrets.getMany(textKeyCollection, ids.slice(i, i + BATCH))) {
        // A damaged document is skipped.
        if (!isTextKey(body)) continue
        found.set(id, 'key' in body ? unpooledBuffer(Buffer.from(body.key, 'base64url')) : body.erased)
      }
    }
    return found
  }

  return {
    async ahead() {
      if (free.length === 0) await make()
    },
    async take(count) {
      while (free.length < count) await make()
      const taken = free.splice(free.length - count, count)
      for (const { id, key } of taken) known.set(id, key)
      // If it fails, the next caller without a key gets the error.
      if (free.length < size / 2) make().catch(() => {})
      return taken
    },
    giveBack(keys) {
      free.push(...keys)
    },
    async find(ids) {
      const current = known
      const found = new Map<string, Buffer | Erased>()
      const missing: string[] = []
      for (const id of ids) {
        const key = current.get(id)
        if (key === undefined) missing.push(id)
        else found.set(id, key)
      }
      if (missing.length === 0) return found
      for (const [id, key] of await stored(missing)) {
        found.set(id, key)
        // An erasure since then has replaced the cache. Destroyed keys are not cached, since they are few.
        if (Buffer.isBuffer(key)) current.set(id, key)
      }
      return found
    },
    async erase(ids, erased) {
      const there = await stored(ids)
      const left = ids.filter((id) => there.get(id) === undefined || Buffer.isBuffer(there.get(id)))
      const body: TextKeyDocument = { erased }
      for (let i = 0; i < left.length; i += BATCH) {
        await secrets.apply(
          left.slice(i, i + BATCH).map((id): Change => {
            return { op: 'put', collection: textKeyCollection, id, position: DESTROYED, body }
          }),
          new Map(),
        )
      }
      known = newCache()
      return left.length
    },
    forget() {
      known = newCache()
    },
  }
}

const newCache = (): LRUCache<string, Buffer> => new LRUCache({ max: MAX_KEYS })
