/**
 * Looks after repositories in the background: a process that notes which ones have changed, and a worker that measures
 * these, one after the other, and maintains them when it is worth it. The notes are in the store, so a crash loses none.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { maintain } from '../../commands/git/maintain.ts'
import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import { createWorker, type Work } from '../../concurrency/worker.ts'
import type { DiskUsageDocument } from '../../projections/installation/disk-usage.ts'
import type { Services } from '../../services/services.ts'
import { untilIdle } from '../idle-time.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

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
/** Whose work it is: nobody's more than another's. */
const OWN = 'server'

interface Wanted extends Work {
  repoId: number
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
  /** When a repository may be measured again at the earliest, in milliseconds of `performance.now()`. */
  const restUntil = new Map<number, number>()
  const inTurn = createKeyedMutex()
  let starting: Promise<void> = Promise.resolve()
  const worker = createWorker<Wanted>(
    {
      places: 1,
      loadEveryMs: LOOK_EVERY_MS,
      load: look,
      work: workOn,
      failed: (error) =>
        log.warn({ err: error }, 'repositories could not be looked through; it will be repeated'),
    },
    signal,
  )
  const isWanted = (repoId: number) => worker.waiting(`${repoId}`) !== undefined

  function want(repoId: number, countAttachments: boolean): void {
    const id = `${repoId}`
    const isCounted = countAttachments || worker.waiting(id)?.countAttachments === true
    const inMs = Math.max(FIRST_MS, (restUntil.get(repoId) ?? 0) - performance.now())
    void worker.add({ id, account: OWN, repoId, countAttachments: isCounted }, inMs)
  }

  /** Notes in the store that a repository has changed. */
  async function note(repoId: number, { countAttachments = false } = {}): Promise<void> {
    const isNoted = isWanted(repoId)
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

  async function workOn({ repoId, countAttachments }: Wanted): Promise<number | undefined> {
    const began = performance.now()
    try {
      await inTurn(`work ${repoId}`, async () => {
        const kind = config.maintenance ? 'due' : 'measure'
        const hasChanged = () => isWanted(repoId)
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
      return undefined
    } catch (error) {
      if (signal.aborted) return undefined
      log.warn({ err: error, repoId }, 'a repository could not be maintained; it will be tried again')
      want(repoId, true)
      return AFTER_FAILURE_MS
    }
  }

  /** Finds what is noted in the store, and repositories of which nothing is known: they were restored or imported. */
  async function look(): Promise<void> {
    for (const [repoId, until] of restUntil) if (until <= performance.now()) restUntil.delete(repoId)
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
      CommentsDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      IssueDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      CommentDeleted: (_, { data }) => note(data.repoId, { countAttachments: true }),
      RepositoryTransferred: (_, { data }) => moved(data.repoId),
      RepositoryDeleted: (_, { data }) => diskUsage.remove(data.repoId),
    }),
    start() {
      // After a crash, all that was busy before waits here, and all clients come back at the same time.
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
