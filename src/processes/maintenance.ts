/**
 * Looks after repositories in the background: a process that notes which ones have changed, and a worker that measures
 * these, one after the other, and maintains them when it is worth it. The notes are in the store, so a crash loses none.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { maintain } from '../commands/git/maintain.ts'
import { createTurns } from '../concurrency/turns.ts'
import { idleTime } from '../idle-time.ts'
import { createPauses } from '../pauses.ts'
import type { DiskUsageDocument } from '../projections/disk-usage.ts'
import type { Services } from '../services.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

/** How long after a change a repository is measured: of many changes the first one is waited for. */
const FIRST_MS = 500
/** A repository that goes on changing is measured again after this time at the earliest, in milliseconds. */
const AGAIN_MS = 5000
/** And after this many times what it took: so that it takes a small part of the time only. */
const AGAIN_TIMES = 20
/** How often the worker looks for what nobody told it of: the time of a repository has come, or another node is gone. */
const LOOK_EVERY_MS = 10 * 60_000
/** How long after a start it waits for idle time at most. */
const BUSY_START_MS = 30_000
/** After a failure it tries again later. */
const AFTER_FAILURE_MS = 5 * 60_000
const BATCH = 200

interface Wanted {
  /** In milliseconds of `performance.now()`, as all times of the worker: the clock may be set. */
  notBefore: number
  countAttachments: boolean
}

export interface Maintenance {
  manager: ProcessManager
  /** Begins to work. To be called when the recovery is done. */
  start(): void
  /** Resolves when the worker has ended, after `signal` was aborted. */
  stopped(): Promise<void>
}

export function createMaintenance(services: Services, signal: AbortSignal): Maintenance {
  const { diskUsage, views, log, config } = services
  /** What has changed since it was measured, by repository. */
  const wanted = new Map<number, Wanted>()
  /** When a repository may be measured again at the earliest. */
  const restUntil = new Map<number, number>()
  const inTurn = createTurns()
  let working: Promise<void> = Promise.resolve()
  const { pause, wake } = createPauses(signal)

  function want(repoId: number, countAttachments: boolean): void {
    const before = wanted.get(repoId)
    const notBefore = before?.notBefore ?? Math.max(performance.now() + FIRST_MS, restUntil.get(repoId) ?? 0)
    wanted.set(repoId, { notBefore, countAttachments: countAttachments || before?.countAttachments === true })
    wake()
  }

  /** Notes in the store that a repository has changed. */
  async function note(repoId: number, { countAttachments = false } = {}): Promise<void> {
    const isNoted = wanted.has(repoId)
    want(repoId, countAttachments)
    if (isNoted) return
    await inTurn(`${repoId}`, async () => {
      const repository = await views.repositories.get(`${repoId}`)
      const before = await diskUsage.get(repoId)
      if (repository === undefined || before?.pending === true) return
      await diskUsage.put(
        before === undefined ? unmeasured(repoId, repository.ownerId) : { ...before, pending: true },
      )
    })
  }

  /** It counts for its new owner at once, and is measured again: the measuring takes longer. */
  async function moved(repoId: number): Promise<void> {
    want(repoId, false)
    await inTurn(`${repoId}`, async () => {
      const ownerId = (await views.repositories.get(`${repoId}`))?.ownerId
      const before = await diskUsage.get(repoId)
      if (ownerId !== undefined && before !== undefined) {
        await diskUsage.put({ ...before, ownerId, pending: true })
      }
    })
  }

  async function workOn(repoId: number, { countAttachments }: Wanted): Promise<void> {
    const began = performance.now()
    try {
      await inTurn(`work ${repoId}`, async () => {
        const kind = config.maintenance ? 'due' : 'measure'
        const hasChanged = () => wanted.has(repoId)
        const done = await maintain(services, repoId, { kind, countAttachments, hasChanged, signal })
        if (done === undefined || done.kind === 'none') return
        const { gitBytes } = done.usage
        log.info(
          { repoId, kind: done.kind, gitBytes, ms: Math.round(performance.now() - began) },
          'repacked a repository',
        )
      })
      const ended = performance.now()
      restUntil.set(repoId, ended + Math.max(AGAIN_MS, AGAIN_TIMES * (ended - began)))
    } catch (error) {
      if (signal.aborted) return
      log.warn({ err: error, repoId }, 'a repository could not be maintained; it will be tried again')
      wanted.set(repoId, { notBefore: performance.now() + AFTER_FAILURE_MS, countAttachments: true })
    }
  }

  /**
   * Finds what is noted in the store, and repositories of which nothing is known: made by an older version, or
   * restored.
   */
  async function look(): Promise<void> {
    for (const { repoId, measuredAt } of await diskUsage.waiting(Date.now(), BATCH))
      want(repoId, measuredAt === '')
    let last = ''
    for (;;) {
      const found = await views.repositories.find(
        { key: { $gt: last } },
        { sort: [['key', 1]], limit: BATCH },
      )
      const known = await diskUsage.getMany(found.map(({ id }) => id))
      for (const { id } of found) if (!known.has(id)) await note(id, { countAttachments: true })
      if (found.length < BATCH || signal.aborted) return
      last = found.at(-1)?.key ?? last
      await delay(10, undefined, { signal })
    }
  }

  async function work(): Promise<void> {
    // After a crash, all that was busy before waits here, and all clients come back at the same time.
    await idleTime(signal, BUSY_START_MS)
    let lookAt = Number.NEGATIVE_INFINITY
    while (!signal.aborted) {
      const now = performance.now()
      if (now >= lookAt) {
        lookAt = now + LOOK_EVERY_MS
        for (const [repoId, until] of restUntil) if (until <= now) restUntil.delete(repoId)
        await look().catch((error: unknown) => {
          if (!signal.aborted)
            log.warn({ err: error }, 'repositories could not be looked through; it will be repeated')
        })
      }
      const { next, at } = nextOf(wanted, now)
      if (next === undefined) {
        await pause(Math.min(at, lookAt) - now)
        continue
      }
      wanted.delete(next[0])
      await workOn(...next)
    }
  }

  return {
    manager: processManager('maintenance', {
      RefsUpdated: (_, { data }) => note(data.repoId),
      LfsObjectsAdded: (_, { data }) => note(data.repoId),
      RepositoryCreated: (_, { data }) => note(data.repoId),
      AttachmentAdded: (_, { data }) => note(data.repoId, { countAttachments: true }),
      AttachmentDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      IssueFileAdded: (_, { data }) => note(data.repoId, { countAttachments: true }),
      IssueFileDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      ReleaseAssetAdded: (_, { data }) => note(data.repoId, { countAttachments: true }),
      ReleaseAssetDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      CommentDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      RepositoryTransferred: (_, { data }) => moved(data.repoId),
      RepositoryDeleted: (_, { data }) => diskUsage.remove(data.repoId),
    }),
    start() {
      working = work()
    },
    stopped: () => working,
  }
}

/** The one that waits longest of those that may be measured now; without one, when there will be one. */
function nextOf(wanted: ReadonlyMap<number, Wanted>, now: number) {
  let at = Number.POSITIVE_INFINITY
  for (const next of wanted) {
    if (next[1].notBefore <= now) return { next, at: now }
    at = Math.min(at, next[1].notBefore)
  }
  return { next: undefined, at }
}

const unmeasured = (repoId: number, ownerId: number): DiskUsageDocument => ({
  repoId,
  ownerId,
  gitBytes: 0,
  attachmentBytes: 0,
  totalBytes: 0,
  measuredAt: '',
  pending: true,
  dueAt: 0,
})
