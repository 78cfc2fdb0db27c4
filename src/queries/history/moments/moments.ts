/**
 * The moments that are read: each is a small read store, built from the events up to it by the folds of the read models. A
 * moment near a built one continues from its file. Least recently used ones are removed.
 */
import { LRUCache } from 'lru-cache'
import { coalesce } from '../../../concurrency/coalesce.ts'
import { coalesceWithSlots } from '../../../concurrency/coalesce-with-slots.ts'
import { currentWorkKey, currentWorkSignal } from '../../../concurrency/event-loop.ts'
import { createSemaphore } from '../../../concurrency/semaphore.ts'
import { LOG_START, StoreUnavailable } from '../../../events/store/event-store.ts'
import { createMomentBuilder } from '../../../projections/moments/builder.ts'
import type { ReadStore } from '../../../projections/store/read-store.ts'
import { openSqliteReadStore } from '../../../projections/store/sqlite/sqlite.ts'
import { createViews, type Views } from '../../../projections/views/views.ts'
import type { MomentClient, MomentPoint, Moments, Subject } from '../../../services/moment.ts'
import type { AnswerServices, HistoryServices } from '../../../services/services.ts'
import type { FreeSpace } from '../../../storage/free-space.ts'
import { momentParts, repositoryParts } from './moment-events.ts'
import { createMomentViews } from './moment-views.ts'
import { createResolve } from './resolve.ts'

export interface MomentLimits {
  /** Number of moments that are kept. Each has two connections to its file, and caches. */
  count: number
  /** Size of their files together, in bytes. */
  bytes: number
  /** Number of moments that are built at the same time; one for each client. */
  builds: number
  /** Number of requests that wait for a build. */
  waiting: number
}

const MOMENT_LIMITS: MomentLimits = { count: 12, bytes: 1024 ** 3, builds: 2, waiting: 64 }

/** Time without a long read after which its thread ends, in milliseconds. */
const IDLE_READER_MS = 10_000
/** Memory of the documents that are cached for a moment, in characters. */
const CACHED_CHARACTERS = 1024 * 1024

/** A moment that was built. It is removed when it is evicted and no request uses it any more. */
interface Built extends MomentPoint {
  subject: Subject
  file: string
  bytes: number
  store: ReadStore
  views: Views
  users: number
  isEvicted: boolean
  /** Whether it has the words of texts, too. */
  hasTexts: boolean
}

interface Options {
  /** Emptied at the start: after a crash its files are of no use. */
  directory: string
  /** How long one read may take, in milliseconds. */
  deadlineMs: number
  /** Keeps the reserve of the disk free for what clients write. */
  freeSpace?: FreeSpace
  limits?: Partial<MomentLimits>
}

const keyOf = ({ kind, id }: Subject, { position }: MomentPoint) => `${kind} ${id} ${position}`
const textsOf = (moment: Built) => `${keyOf(moment.subject, moment)} texts`

/** Creates the moments. The views of `services` are present ones. */
export async function createMoments(
  services: AnswerServices & HistoryServices,
  { directory, deadlineMs, freeSpace, limits }: Options,
): Promise<Moments> {
  const { count, bytes, builds, waiting } = { ...MOMENT_LIMITS, ...limits }
  const { events } = services
  const builder = await createMomentBuilder(directory)
  const built = new LRUCache<string, Built>({
    max: count,
    maxSize: bytes,
    sizeCalculation: (moment) => Math.max(1, moment.bytes),
    dispose(moment) {
      moment.isEvicted = true
      removeUnused(moment)
    },
  })
  const slots = createSemaphore({ name: 'moments', size: builds, share: 1, waiting })
  const ask = coalesceWithSlots<Built>(slots)
  const running = coalesce<Built>()
  /** Builds that have not ended. */
  const building = new Set<Promise<unknown>>()
  /** Moments whose files are not removed: cached ones, and those that requests read. */
  const alive = new Set<Built>()
  /** Removals that have not ended. */
  const removing = new Set<Promise<void>>()

  function removeUnused(moment: Built): void {
    if (!moment.isEvicted || moment.users > 0) return
    alive.delete(moment)
    const removal = moment.store
      .close()
      .then(() => builder.remove(moment.file))
      .catch(() => {})
      .finally(() => removing.delete(removal))
    removing.add(removal)
  }

  /** Marks a moment as used. It stays readable until the returned function is called. */
  function use(moment: Built): () => void {
    moment.users += 1
    let isUsed = true
    return () => {
      if (!isUsed) return
      isUsed = false
      moment.users -= 1
      removeUnused(moment)
    }
  }

  // Some may have the erased texts.
  events.onErasure?.(() => built.clear())
  const erasuresNow = () => events.erasures?.() ?? 0

  /** The latest built moment of the subject before a position. */
  function nearest({ kind, id }: Subject, { position }: MomentPoint): Built | undefined {
    let latest: Built | undefined
    for (const moment of built.values()) {
      const { subject } = moment
      if (moment.hasTexts) continue
      if (subject.kind !== kind || subject.id !== id || moment.position > position) continue
      if (latest === undefined || moment.position > latest.position) latest = moment
    }
    return latest
  }

  /** Makes a moment of a file, and keeps it unless it is too large or has texts that were erased since `before`. */
  function kept(
    { file, bytes }: { file: string; bytes: number },
    { subject, position, at }: Pick<Built, 'subject' | 'position' | 'at'>,
    before: number,
    hasTexts: boolean,
  ): Built {
    const store = openSqliteReadStore(file, 'OFF', { deadlineMs, idleMs: IDLE_READER_MS })
    const own = createViews(store, undefined, CACHED_CHARACTERS)
    const views = hasTexts
      ? own
      : createMomentViews(services, subject, { position, at }, own, (read) => withTexts(moment, read))
    const moment: Built = {
      ...{ subject, position, at, file, bytes, store, views },
      ...{ users: 0, isEvicted: false, hasTexts },
    }
    alive.add(moment)
    const key = hasTexts ? textsOf(moment) : keyOf(subject, moment)
    if (before === erasuresNow()) built.set(key, moment)
    if (built.peek(key) !== moment) moment.isEvicted = true
    // The callers, if any are left, use it before that.
    setImmediate(use(moment))
    return moment
  }

  /** Builds a file, for which an erasure waits. */
  function fileFrom(...parts: Parameters<typeof builder.build>): ReturnType<typeof builder.build> {
    const made = builder.build(...parts).finally(() => building.delete(made))
    building.add(made)
    return made
  }

  async function build(subject: Subject, point: MomentPoint, client: MomentClient): Promise<Built> {
    const before = erasuresNow()
    const start = nearest(subject, point)
    const release = start && use(start)
    try {
      await freeSpace?.require('data', start?.bytes)
      const range = { after: start?.position ?? LOG_START, upTo: point.position }
      const parts = momentParts(services, subject, range, client)
      return kept(await fileFrom(start?.file, parts), { subject, ...point }, before, false)
    } catch (error) {
      // Its file may be missing or damaged.
      if (start !== undefined && error instanceof StoreUnavailable) built.delete(keyOf(subject, start))
      throw error
    } finally {
      release?.()
    }
  }

  /** Runs a read on a copy of the moment that also has the words of its texts. */
  async function withTexts<T>(moment: Built, read: (views: Views) => Promise<T>): Promise<T> {
    const key = textsOf(moment)
    const { subject, position } = moment
    const held = use(moment)
    const client = { client: currentWorkKey() ?? 'server', gone: currentWorkSignal() }
    try {
      const { moment: indexed, release } = await opened(key, client, async (gone) => {
        const before = erasuresNow()
        await freeSpace?.require('data', moment.bytes)
        const range = { after: LOG_START, upTo: position }
        const parts = repositoryParts(services, 'texts', subject.id, range, { ...client, gone })
        return kept(await fileFrom(moment.file, parts), moment, before, true)
      })
      try {
        return await read(indexed.views)
      } finally {
        release()
      }
    } finally {
      held()
    }
  }

  /** Returns a moment that stays readable until it is released. `make` builds it unless it is there. */
  async function opened(key: string, client: MomentClient, make: (gone: AbortSignal) => Promise<Built>) {
    const known = built.get(key)
    if (known !== undefined) return { moment: known, release: use(known) }
    const moment = await ask(
      key,
      client.client,
      // A build that has begun is shared, also by clients that come later. `unwanted` aborts when all have left.
      (unwanted) => running(key, async (gone) => built.get(key) ?? (await make(gone)), unwanted),
      client.gone,
    )
    return { moment, release: use(moment) }
  }

  return {
    resolve: createResolve(services),
    async open(subject, point, client) {
      const { moment, release } = await opened(keyOf(subject, point), client, (gone) =>
        build(subject, point, { ...client, gone }),
      )
      const { position, at, views } = moment
      return { position, at, views, release }
    },
    async forget() {
      built.clear()
      await Promise.allSettled(building)
      // Requests read on from files without names.
      await Promise.all([...removing, ...[...alive].map((moment) => builder.remove(moment.file))])
    },
    cached: () => ({ moments: built.size, bytes: built.calculatedSize }),
    async close() {
      built.clear()
      await Promise.all(removing)
      await builder.close()
    },
  }
}
