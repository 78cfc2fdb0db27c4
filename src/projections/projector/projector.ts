/**
 * Folds the log into the read models, in order and in batches. Each batch writes its documents and checkpoints
 * together, so the projector may stop at any point. In a store that several servers share, a server folds only the
 * models that it holds, and follows the others: see `shared-models.ts`.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import {
  type EventStore,
  LOG_START,
  type Position,
  StoreUnavailable,
} from '../../events/store/event-store.ts'
import { ReplacedMeanwhile } from '../generations/generations.ts'
import { createSharedModels, isFollowed, type Progress, type Sharing } from '../generations/shared-models.ts'
import { LeaseLost, type ReadStore, type Touched } from '../store/read-store.ts'
import { type AroundBatch, createBatchWriter } from './batch-writer.ts'
import { createLogFollower } from './log-follower.ts'
import { createModelStarts } from './model-starts.ts'
import { createPositions } from './positions.ts'
import { createReach } from './reach.ts'
import type { ReadModel } from './read-model.ts'
import { createWaiters } from './waiters.ts'
import { createWrittenDocuments } from './written-documents.ts'

interface ReadModelStatus {
  name: string
  position: Position
  /** Why the read model stopped; absent while it runs. */
  stopped?: string
}

export interface Projector {
  /**
   * Prepares the collections, clears those whose fold changed, and starts to follow the log.
   * @throws BrokenFile when the log ends before the read models' checkpoints
   */
  start(): Promise<void>
  stop(): Promise<void>
  /** Resolves to true when every running read model has reached the position, or to false after `timeoutMs`. */
  waitFor(position: Position, timeoutMs: number): Promise<boolean>
  /**
   * Resolves to true when every running read model has all events that the log had at the start, or to false after
   * `timeoutMs`. Before that, a missing document does not mean that the thing does not exist.
   */
  caughtUp(timeoutMs: number): Promise<boolean>
  /**
   * Resolves when queries show all events that were written before the call, by this server or by another. Undefined
   * when they do already. @throws StoreUnavailable when this server cannot know it within 5 s
   */
  current(): Promise<void> | undefined
  /**
   * The position that every running read model has reached; without a running one, the position that all have reached.
   */
  position(): Position
  status(): ReadModelStatus[]
  /** The stopped read models of `status`. */
  stopped(): ReadModelStatus[]
  /** Whether the last batch could not be written because the disk is full. The write is retried. */
  isDiskFull(): boolean
  /**
   * Makes this server the writer of a read model, in a store that several share.
   * @throws StoreUnavailable when the current writer does not release it within 10 s
   */
  hold(model: string): Promise<void>
  /**
   * Replaces the documents of a read model with rebuilt ones. Runs `replace` between two batches, so that nothing is
   * written meanwhile. `replace` must fold at least up to the position that it gets, and resolves to the position of
   * the new documents. The model continues from there, even if it had stopped.
   */
  exchange(model: string, replace: (position: Position) => Promise<Position>): Promise<void>
}

interface Projecting {
  log: FastifyBaseLogger
  events: EventStore
  views: ReadStore
  models: readonly ReadModel[]
  /** Called with the documents of a batch after it was written, and before `waitFor` resolves. */
  applied?: ((touched: readonly Touched[]) => void) | undefined
  /** Needed when other servers share the store. */
  sharing?: Sharing | undefined
  /** Runs the work on a batch, and reports its duration. */
  around?: AroundBatch | undefined
}

/** Mutex key of all work of a projector, which runs one at a time. */
const MUTEX_KEY = 'batch'
/** Interval between checks for read models without a writer, in milliseconds. */
const TAKE_MS = 1000
/** Maximum wait for another server to release a read model, in milliseconds. */
const HOLD_MS = 10_000
/** Pauses between reads of other servers' positions while a request waits, in milliseconds: at first, and later. */
const POLL_MS = [1, 20] as const
/** Duration of the short pauses, in milliseconds. */
const AT_FIRST_MS = 50

export function createProjector({
  log,
  events,
  views,
  models,
  applied = () => {},
  sharing,
  around = (_batch, work) => work(),
}: Projecting): Projector {
  const stopping = new AbortController()
  const { signal: stopped } = stopping
  const isShared = views.shared !== undefined && sharing !== undefined
  const progress: Progress[] = models.map((model) => ({
    model,
    position: LOG_START,
    ...(isShared && { written: LOG_START }),
  }))
  const reach = createReach(progress)
  const waiters = createWaiters()
  const moved = () => waiters.answer(reach.passed())
  const shared =
    views.shared === undefined || sharing === undefined
      ? undefined
      : createSharedModels(progress, views.shared, sharing, {
          touched: applied,
          moved,
          changed() {
            follower.restart()
            moved()
          },
          anotherIncarnation: () => takeModels(),
        })
  const mutex = createKeyedMutex()
  const runExclusive = <T>(work: () => Promise<T>) => mutex(MUTEX_KEY, work)
  const positions = createPositions(progress, views, shared?.move, savePositions)
  const documents = createWrittenDocuments(views)
  const starts = createModelStarts({ log, events, views, progress, positions, documents })
  const parts = { log, reach, starts, shared, moved }
  const writer = createBatchWriter({ ...parts, positions, documents, runExclusive, around, applied })
  const follower = createLogFollower({ ...parts, events, writer, takeModels, stopping: stopped })
  let taking: Promise<void> | undefined
  let polling: Promise<void> | undefined

  async function prepare(): Promise<void> {
    const checkpoints = await starts.read()
    if (shared === undefined) {
      for (const p of progress) await starts.begin(p, checkpoints.get(p))
      return
    }
    // The cache is empty, so writes of other servers need not be evicted.
    for (const [p, { position }] of checkpoints) Object.assign(p, { position, written: position })
    await shared.take(starts.begin).catch((error: unknown) => {
      // Another server writes the model now, so this one follows.
      if (!(error instanceof LeaseLost)) throw error
    })
  }

  /** Writes the checkpoints that have moved in memory only. */
  async function savePositions(): Promise<void> {
    try {
      await runExclusive(positions.saveAll)
    } catch (error) {
      // The stored checkpoints are still correct: the events after them have changed nothing.
      log.debug({ err: error }, 'checkpoints were not written')
      if (error instanceof LeaseLost && !stopped.aborted) await takeModels().catch(() => {})
    }
  }

  /** Takes the models that no server writes any more. */
  async function takeModels(forced?: string): Promise<void> {
    await runExclusive(async () => shared?.take(starts.begin, forced))
  }

  async function keepTaking(): Promise<void> {
    while (!stopped.aborted) {
      await delay(TAKE_MS, undefined, { signal: stopped }).catch(() => {})
      if (stopped.aborted) return
      // The next check retries.
      await takeModels().catch((error: unknown) =>
        log.debug({ err: error }, 'the read models could not be checked'),
      )
      await shared?.observe().catch(() => {})
    }
  }

  /** Reads the positions of other servers, as long as a request waits for them. */
  async function pollForWaiters(): Promise<void> {
    while (!waiters.isEmpty() && !stopped.aborted) {
      await shared?.observe().catch(() => {})
      const pause = waiters.youngestAge() < AT_FIRST_MS ? POLL_MS[0] : POLL_MS[1]
      if (!waiters.isEmpty()) await delay(pause, undefined, { signal: stopped }).catch(() => {})
    }
  }

  function modelNamed(name: string): Progress {
    const p = progress.find(({ model }) => model.name === name)
    if (p === undefined) throw new Error(`there is no read model ${name}`)
    return p
  }

  function waitFor(position: Position, timeoutMs: number): Promise<boolean> {
    if (reach.passed() >= position) return Promise.resolve(true)
    const waiting = waiters.wait(position, timeoutMs)
    if (progress.some(isFollowed))
      polling ??= pollForWaiters().finally(() => {
        polling = undefined
      })
    return waiting
  }

  return {
    async start() {
      await prepare()
      follower.start()
      if (shared !== undefined) taking = keepTaking()
    },
    async stop() {
      stopping.abort()
      positions.stop()
      await Promise.all([follower.ended(), taking, polling])
      await savePositions()
      // If this fails, the other servers take the models when they detect that this server is gone.
      await shared?.releaseAll().catch(() => {})
      waiters.giveUp()
    },
    waitFor,
    caughtUp: (timeoutMs) => waitFor(starts.endAtStart(), timeoutMs),
    current: () => shared?.current(),
    position: reach.passed,
    async hold(name) {
      const p = modelNamed(name)
      for (const deadline = performance.now() + HOLD_MS; isFollowed(p); ) {
        if (performance.now() > deadline || stopped.aborted)
          throw new StoreUnavailable(`the server that writes the read model ${name} does not release it`)
        await shared?.request(p)
        await delay(POLL_MS[1], undefined, { signal: stopped })
        await takeModels(name)
      }
    },
    exchange: (name, replace) =>
      runExclusive(async () => {
        const p = modelNamed(name)
        if (isFollowed(p)) throw new ReplacedMeanwhile(name)
        // After the last batch, which is not delivered again.
        documents.forget(p.model.collection)
        const most = reach.running().reduce((max, { position }) => Math.max(max, position), reach.last())
        p.position = await replace(most)
        positions.markSaved(name, p.position)
        delete p.stopped
        // If every model had stopped, the projector no longer followed the log.
        if (!stopped.aborted) follower.start()
        moved()
      }),
    status: () => progress.map(statusOf),
    stopped: () => progress.filter(({ stopped }) => stopped !== undefined).map(statusOf),
    isDiskFull: writer.isDiskFull,
  }
}

function statusOf({ model: { name }, position, stopped }: Progress): ReadModelStatus {
  return stopped === undefined ? { name, position } : { name, position, stopped }
}
