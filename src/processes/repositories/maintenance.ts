/**
 * Maintains repositories in the background: a process records the changed ones in the store, so a crash loses none, and
 * a worker measures them one by one and repacks them when worthwhile.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { maintain } from '../../commands/git/maintain.ts'
import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import { createWorker, type Work } from '../../concurrency/worker.ts'
import type { DiskUsageDocument } from '../../projections/installation/disk-usage.ts'
import type { Services } from '../../services/services.ts'
import { untilIdle } from '../idle-time.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

/** Pause between the first change of a repository and its measurement, in milliseconds. */
const FIRST_MS = 500
/** Minimum pause between measurements of a repository, in milliseconds. */
const AGAIN_MS = 5000
/** The same pause as a multiple of the measurement's duration. */
const AGAIN_TIMES = 20
/** Interval of the look-up of repositories that are due or left by a dead node, in milliseconds. */
const LOAD_INTERVAL_MS = 10 * 60_000
/** Maximum wait for an idle event loop after a start, in milliseconds. */
const BUSY_START_MS = 30_000
/** Pause after a failure, in milliseconds. */
const AFTER_FAILURE_MS = 5 * 60_000
const BATCH = 200
/** Scheduling key: the work belongs to no account. */
const OWN = 'server'

interface MaintenanceWork extends Work {
  repoId: number
  countAttachments: boolean
}

export interface Maintenance {
  manager: ProcessManager
  /** Begins to work. Call it after the recovery. */
  start(): void
  /** Resolves when the worker has ended, after `signal` was aborted. */
  stopped(): Promise<void>
}

export function createMaintenance(services: Services, signal: AbortSignal): Maintenance {
  const { diskUsage, views, log, config } = services
  /** Earliest next measurement by repository id, in milliseconds of `performance.now()`. */
  const notBefore = new Map<number, number>()
  const runExclusive = createKeyedMutex()
  let starting: Promise<void> = Promise.resolve()
  const worker = createWorker<MaintenanceWork>(
    {
      places: 1,
      loadEveryMs: LOAD_INTERVAL_MS,
      load: enqueueDue,
      work: workOn,
      failed: (error) =>
        log.warn({ err: error }, 'the list of due repositories cannot be read; it will be retried'),
    },
    signal,
  )
  const isQueued = (repoId: number) => worker.waiting(`${repoId}`) !== undefined

  function enqueue(repoId: number, countAttachments: boolean): void {
    const id = `${repoId}`
    const isCounted = countAttachments || worker.waiting(id)?.countAttachments === true
    const inMs = Math.max(FIRST_MS, (notBefore.get(repoId) ?? 0) - performance.now())
    void worker.add({ id, account: OWN, repoId, countAttachments: isCounted }, inMs)
  }

  /** Records in the store that a repository has changed. */
  async function recordChange(repoId: number, { countAttachments = false } = {}): Promise<void> {
    const wasQueued = isQueued(repoId)
    enqueue(repoId, countAttachments)
    if (wasQueued) return
    await runExclusive(`${repoId}`, async () => {
      const repository = await views.repositories.get(`${repoId}`)
      const before = await diskUsage.get(repoId)
      if (repository === undefined || before?.pending === true) return
      await diskUsage.put(
        before === undefined ? unmeasured(repoId, repository.ownerId) : { ...before, pending: true },
      )
    })
  }

  /** Counts the size for the new owner at once, before the measurement, which takes longer. */
  async function onTransfer(repoId: number): Promise<void> {
    enqueue(repoId, false)
    await runExclusive(`${repoId}`, async () => {
      const ownerId = (await views.repositories.get(`${repoId}`))?.ownerId
      const before = await diskUsage.get(repoId)
      if (ownerId !== undefined && before !== undefined) {
        await diskUsage.put({ ...before, ownerId, pending: true })
      }
    })
  }

  async function workOn({ repoId, countAttachments }: MaintenanceWork): Promise<number | undefined> {
    const began = performance.now()
    try {
      await runExclusive(`work ${repoId}`, async () => {
        const kind = config.maintenance ? 'due' : 'measure'
        const hasChanged = () => isQueued(repoId)
        const done = await maintain(services, repoId, { kind, countAttachments, hasChanged, signal })
        if (done === undefined || done.kind === 'none') return
        const { gitBytes } = done.usage
        log.info(
          { repoId, kind: done.kind, gitBytes, ms: Math.round(performance.now() - began) },
          'repacked a repository',
        )
      })
      const ended = performance.now()
      notBefore.set(repoId, ended + Math.max(AGAIN_MS, AGAIN_TIMES * (ended - began)))
      return undefined
    } catch (error) {
      if (signal.aborted) return undefined
      log.warn({ err: error, repoId }, 'a repository could not be maintained; it will be tried again')
      enqueue(repoId, true)
      return AFTER_FAILURE_MS
    }
  }

  /** Finds repositories that were recorded as changed, and unmeasured ones, which were restored or imported. */
  async function enqueueDue(): Promise<void> {
    for (const [repoId, until] of notBefore) if (until <= performance.now()) notBefore.delete(repoId)
    for (const { repoId, measuredAt } of await diskUsage.waiting(Date.now(), BATCH))
      enqueue(repoId, measuredAt === '')
    let last = ''
    for (;;) {
      const found = await views.repositories.find(
        { key: { $gt: last } },
        { sort: [['key', 1]], limit: BATCH },
      )
      const known = await diskUsage.getMany(found.map(({ id }) => id))
      for (const { id } of found) if (!known.has(id)) await recordChange(id, { countAttachments: true })
      if (found.length < BATCH || signal.aborted) return
      last = found.at(-1)?.key ?? last
      await delay(10, undefined, { signal })
    }
  }

  return {
    manager: processManager('maintenance', {
      RefsUpdated: (_, { data }) => recordChange(data.repoId),
      LfsObjectsAdded: (_, { data }) => recordChange(data.repoId),
      RepositoryCreated: (_, { data }) => recordChange(data.repoId),
      AttachmentAdded: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      AttachmentDeleted: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      IssueFileAdded: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      IssueFileDeleted: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      ReleaseAssetAdded: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      ReleaseAssetDeleted: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      CommentsDeleted: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      IssueDeleted: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      CommentDeleted: (_, { data }) => recordChange(data.repoId, { countAttachments: true }),
      RepositoryTransferred: (_, { data }) => onTransfer(data.repoId),
      RepositoryDeleted: (_, { data }) => diskUsage.remove(data.repoId),
    }),
    start() {
      // After a crash, waiting work starts here while all clients reconnect.
      starting = untilIdle(signal, BUSY_START_MS).then(() => worker.start())
    },
    stopped: () => starting.then(worker.stopped),
  }
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
