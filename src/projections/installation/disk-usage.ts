/**
 * What repositories take on disk. It is a fact of this installation's files and not of the log: a repack changes it and
 * nobody did anything. So it is no event and no read model: it is kept beside them, and measured again when it is lost.
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
  /** The files of the bare repository, in bytes. Files that forks share count for each of them. */
  gitBytes: number
  /** The files of its comments, in bytes. */
  attachmentBytes: number
  totalBytes: number
  /** What its default branch has in each language, in bytes. Absent: it is empty, or they were not counted. */
  languages?: { commit: string; bytes: Languages }
  /** When the measuring began: ISO 8601; empty when it was never measured. */
  measuredAt: string
  /** Whether something has changed since. */
  pending: boolean
  /** When maintenance is due although nothing changes: milliseconds since 1970; 0 for never. */
  dueAt: number
}

const collection: Collection<DiskUsageDocument> = {
  name: 'disk_usage',
  indexes: [{ ownerId: 1 }, { totalBytes: -1 }, { pending: 1 }, { dueAt: 1 }],
  arrays: [],
}

/** It is not folded from the log, so it has no real position. */
const position = 0
/** How long another node's measuring may be unknown here, in milliseconds. */
const FRESH_MS = 5000
/** Maintenance is due within this time. What seems later is from before the clock was set back, perhaps by years. */
const LATEST_MS = 30 * 24 * 3_600_000
/** How long bytes count that nobody has measured yet. It is longer than a measuring takes. */
const UNMEASURED_MS = 10 * 60_000

/** Bytes that an owner is about to have, or has since the last measuring. */
interface Reserved {
  repoId: number
  bytes: number
  /** When they were written: by the clock, and in milliseconds of `performance.now()`; undefined until they are. */
  written: { at: () => number; time: number } | undefined
}

/** Bytes that are held for an owner. `end` frees them; `written`: they are on disk, and count until they are measured. */
export interface Reservation {
  end(outcome: 'written' | 'dropped'): void
}

export type DiskUsage = ReturnType<typeof createDiskUsage>

/** Opens the records of a store. `prepare` must be called before anything else. */
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

  /** What an owner's repositories take, with what is being written and what was not measured yet, in bytes. */
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

    /** The records of these repositories; those that were never measured are left out. */
    async getMany(repoIds: readonly number[]): Promise<Map<number, DiskUsageDocument>> {
      const missing = repoIds.filter((id) => !known.has(id))
      const stored = missing.length === 0 ? [] : await store.getMany(collection, missing.map(String))
      for (const { body } of stored) known.set(body.repoId, body)
      const found = repoIds.map((id) => [id, known.get(id)] as const)
      return new Map(found.flatMap(([id, usage]) => (usage === undefined ? [] : [[id, usage]])))
    },

    /** The record as the store has it now. */
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

    /** The repositories that take the most, the largest first. */
    largest: async (options: FindOptions<DiskUsageDocument>): Promise<FoundPage<DiskUsageDocument>> =>
      foundPage(await store.page(collection, {}, { ...options, sort: [['totalBytes', -1]] })),

    /** Those that have changed since they were measured, and those whose time has come. */
    async waiting(now: number, limit: number): Promise<DiskUsageDocument[]> {
      const changed = await store.find(collection, { pending: true }, { limit })
      const due = await store.find(collection, { dueAt: { $gt: 0, $lte: now } }, { limit })
      const ofLaterClock = await store.find(collection, { dueAt: { $gt: now + LATEST_MS } }, { limit })
      return [...changed, ...[...due, ...ofLaterClock].filter(({ pending }) => !pending)]
    },

    /** Holds bytes for an owner, unless it would then have more than `most`. */
    async reserve(
      { ownerId, repoId }: Pick<DiskUsageDocument, 'ownerId' | 'repoId'>,
      bytes: number,
      most: number,
    ): Promise<Reservation | undefined> {
      // Without a limit nobody asks how much there is.
      if (most === Number.POSITIVE_INFINITY) return { end() {} }
      const one: Reserved = { repoId, bytes, written: undefined }
      const own = reserved.get(ownerId) ?? new Set()
      reserved.set(ownerId, own)
      // Before the wait: of two at once, each counts the other.
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
