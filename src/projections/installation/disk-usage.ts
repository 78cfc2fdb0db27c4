/**
 * Disk usage of repositories. It depends on the files of this installation (a repack changes it), so it is kept beside
 * the read models and measured again when it is lost.
 */
import { LRUCache } from 'lru-cache'
import type { Languages } from '../../git/repository/languages.ts'
import { recordNow } from '../../storage/steady-clock.ts'
import {
  type Collection,
  type FindOptions,
  type FoundPage,
  foundPage,
  type ReadStore,
} from '../store/read-store.ts'

export interface DiskUsageDocument {
  repoId: number
  ownerId: number
  /** The files of the bare repository, in bytes. A file that forks share counts for each fork. */
  gitBytes: number
  /** The files of its comments, in bytes. */
  attachmentBytes: number
  totalBytes: number
  /** Bytes per language of the default branch; absent when the branch is empty or was not counted. */
  languages?: { commit: string; bytes: Languages }
  /** Start of the measurement, in ISO 8601; empty without one. */
  measuredAt: string
  /** Whether the repository has changed since the measurement. */
  pending: boolean
  /** When maintenance is due without changes, in milliseconds since 1970; 0 for never. */
  dueAt: number
}

const collection: Collection<DiskUsageDocument> = {
  name: 'disk_usage',
  indexes: [{ ownerId: 1 }, { totalBytes: -1 }, { pending: 1 }, { dueAt: 1 }],
  arrays: [],
}

/** These documents are not folded from the log. */
const position = 0
/** Maximum age of another node's measurement here, in milliseconds. */
const FRESH_MS = 5000
/** Maximum time until maintenance. A later time was written before the clock was set back. */
const LATEST_MS = 30 * 24 * 3_600_000
/** Time that unmeasured bytes count, in milliseconds, longer than a measurement. */
const UNMEASURED_MS = 10 * 60_000

/** Bytes that an owner is writing, or has written since the last measurement. */
interface Reserved {
  repoId: number
  bytes: number
  /** Time of the write, by the clock and by `performance.now()`; undefined before it. */
  written: { at: () => number; time: number } | undefined
}

/** A reservation for an owner. `end` releases it; `written` counts the bytes until they are measured. */
export interface Reservation {
  end(outcome: 'written' | 'dropped'): void
}

export type DiskUsage = ReturnType<typeof createDiskUsage>

/** Opens the records of a store. Call `prepare` first. */
export function createDiskUsage(store: ReadStore) {
  const known = new LRUCache<number, DiskUsageDocument>({ max: 10_000, ttl: FRESH_MS })
  const owners = new LRUCache<number, DiskUsageDocument[]>({ max: 1000, ttl: FRESH_MS })
  const reserved = new Map<number, Set<Reserved>>()

  async function ofOwner(ownerId: number): Promise<DiskUsageDocument[]> {
    const found = owners.get(ownerId) ?? (await store.find(collection, { ownerId }))
    owners.set(ownerId, found)
    return found
  }

  function forget(ownerId: number, one: Reserved): void {
    const own = reserved.get(ownerId)
    own?.delete(one)
    if (own?.size === 0) reserved.delete(ownerId)
  }

  /** Returns the bytes of an owner's repositories, with reservations and unmeasured writes. */
  async function totalOf(ownerId: number): Promise<number> {
    const documents = await ofOwner(ownerId)
    const measured = new Map(documents.map(({ repoId, measuredAt }) => [repoId, Date.parse(measuredAt)]))
    let bytes = documents.reduce((sum, { totalBytes }) => sum + totalBytes, 0)
    for (const one of reserved.get(ownerId) ?? []) {
      const { repoId, written } = one
      const isMeasured = written !== undefined && (measured.get(repoId) ?? 0) >= written.at()
      const isOld = written !== undefined && performance.now() - written.time > UNMEASURED_MS
      if (isMeasured || isOld) forget(ownerId, one)
      else bytes += one.bytes
    }
    return bytes
  }

  return {
    prepare: () => store.prepare([collection]),
    totalOf,

    /** Returns the records of these repositories, without those that were never measured. */
    async getMany(repoIds: readonly number[]): Promise<Map<number, DiskUsageDocument>> {
      const missing = repoIds.filter((id) => !known.has(id))
      const stored = missing.length === 0 ? [] : await store.getMany(collection, missing.map(String))
      for (const { body } of stored) known.set(body.repoId, body)
      const found = repoIds.map((id) => [id, known.get(id)] as const)
      return new Map(found.flatMap(([id, usage]) => (usage === undefined ? [] : [[id, usage]])))
    },

    /** Returns the stored record, without the cache. */
    get: (repoId: number): Promise<DiskUsageDocument | undefined> => store.get(collection, `${repoId}`),

    async put(usage: DiskUsageDocument): Promise<void> {
      await store.apply([{ op: 'put', collection, id: `${usage.repoId}`, position, body: usage }], new Map())
      known.set(usage.repoId, usage)
      owners.delete(usage.ownerId)
    },

    async remove(repoId: number): Promise<void> {
      const ownerId = known.get(repoId)?.ownerId ?? (await store.get(collection, `${repoId}`))?.ownerId
      await store.apply([{ op: 'delete', collection, id: `${repoId}` }], new Map())
      known.delete(repoId)
      if (ownerId !== undefined) owners.delete(ownerId)
    },

    /** Returns the repositories with the largest disk usage first. */
    largest: async (options: FindOptions<DiskUsageDocument>): Promise<FoundPage<DiskUsageDocument>> =>
      foundPage(await store.page(collection, {}, { ...options, sort: [['totalBytes', -1]] })),

    /** Returns the repositories that changed since their measurement and those whose maintenance is due. */
    async waiting(now: number, limit: number): Promise<DiskUsageDocument[]> {
      const changed = await store.find(collection, { pending: true }, { limit })
      const due = await store.find(collection, { dueAt: { $gt: 0, $lte: now } }, { limit })
      const ofLaterClock = await store.find(collection, { dueAt: { $gt: now + LATEST_MS } }, { limit })
      return [...changed, ...[...due, ...ofLaterClock].filter(({ pending }) => !pending)]
    },

    /** Reserves bytes for an owner unless the total would exceed `most`. */
    async reserve(
      { ownerId, repoId }: Pick<DiskUsageDocument, 'ownerId' | 'repoId'>,
      bytes: number,
      most: number,
    ): Promise<Reservation | undefined> {
      if (most === Number.POSITIVE_INFINITY) return { end() {} }
      const one: Reserved = { repoId, bytes, written: undefined }
      const own = reserved.get(ownerId) ?? new Set()
      reserved.set(ownerId, own)
      // Added before the wait, so that two concurrent reservations count each other.
      own.add(one)
      const total = await totalOf(ownerId).catch((error: unknown) => {
        forget(ownerId, one)
        throw error
      })
      if (total > most) {
        forget(ownerId, one)
        return undefined
      }
      return {
        end(outcome) {
          if (outcome === 'written') one.written = { at: recordNow(), time: performance.now() }
          else forget(ownerId, one)
        },
      }
    },
  }
}
