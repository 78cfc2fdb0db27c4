/**
 * Folds the log into the read models, in order and in batches. Each batch writes its documents and checkpoints
 * together, so the projector may stop at any point. Every node may run its own projector: folds are deterministic, and
 * documents record their position.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../events/event-store.ts'
import { BrokenFile } from '../sqlite.ts'
import { createTurns } from '../turns.ts'
import { createGaps, type Gaps } from './log-gaps.ts'
import { isPositionOfEvent, lastEventUpTo } from './log-positions.ts'
import type { Poison, ReadModel } from './read-model.ts'
import type { Change, Checkpoint, ReadStore, Touched } from './read-store.ts'
import { eventsFor, readBatch } from './readable-events.ts'

export interface ReadModelStatus {
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
  /** The position that every running read model has reached; when none runs, that every one has reached. */
  position(): Position
  status(): ReadModelStatus[]
  /**
   * Replaces the documents of a read model with rebuilt ones. It does so between two batches, so that nothing is
   * written meanwhile. `replace` must bring the new documents at least to the position that it gets, and resolves to
   * the position that they hold. The model continues from there, even if it had stopped.
   */
  exchange(model: string, replace: (position: Position) => Promise<Position>): Promise<void>
}

/** All work of a projector shares this key, so it runs one at a time. */
const TURN = 'batch'

interface Progress {
  model: ReadModel
  position: Position
  stopped?: string
}

interface Waiter {
  position: Position
  resolve: (passed: boolean) => void
}

const RETRY_MS = 500
const BATCH = 1000

export function createProjector(
  log: FastifyBaseLogger,
  events: EventStore,
  views: ReadStore,
  models: readonly ReadModel[],
  /** Called with the documents of a batch after it was written, and before `waitFor` resolves. */
  applied: (touched: readonly Touched[]) => void = () => {},
): Projector {
  const stopping = new AbortController()
  const progress: Progress[] = models.map((model) => ({ model, position: LOG_START }))
  const waiters = new Set<Waiter>()
  /** Undefined while the projector does not follow the log. */
  let following: Promise<void> | undefined
  /** Runs batches and exchanges one at a time. */
  const inTurn = createTurns()

  let endAtStart: Position = LOG_START
  /** Exists while a model is made again from the first event: what the log lacks, the model lacks too. */
  let gaps: Gaps | undefined
  /** What the subscription has passed since it began. After the last event taken, only events of others are there. */
  let seen: Position = LOG_START

  const running = () => progress.filter((p) => p.stopped === undefined)
  /** The last event that every running read model has taken. */
  const taken = () => leastOf(running())
  /** What stopped models have not taken is never passed: when none runs, nothing more is. */
  const passed = () => (running().length === 0 ? leastOf(progress) : Math.max(taken(), seen))

  async function prepare(): Promise<void> {
    await views.prepare(models.map((model) => model.collection))
    const checkpoints = new Map<Progress, Checkpoint>()
    for (const p of progress) {
      const checkpoint = await views.checkpoint(p.model.name)
      if (checkpoint !== undefined) checkpoints.set(p, checkpoint)
    }
    endAtStart = await events.lastPosition()
    for (const [{ model }, { position }] of checkpoints) {
      if (position <= endAtStart) continue
      // The log was cut off, or is an older copy. The read models would skip new events up to the checkpoint without
      // notice.
      const problem = `it ends at position ${endAtStart}, and the read model ${model.name} holds events up to ${position}`
      throw new BrokenFile('the log', problem)
    }
    for (const p of progress) {
      const checkpoint = checkpoints.get(p)
      if (checkpoint?.version === p.model.version) {
        p.position = checkpoint.position
        continue
      }
      // The fold is new or has changed: make its documents again from the first event.
      if (checkpoint !== undefined)
        log.info(
          { model: p.model.name },
          'the read model has changed: its documents are made again from the log',
        )
      const none: Checkpoint = { position: LOG_START, version: p.model.version }
      await views.clear(p.model.collection)
      await views.apply([], new Map([[p.model.name, none]]))
      p.position = LOG_START
      // The embedded log, which has no such problems, cannot lose events.
      if (events.problems !== undefined) gaps ??= createGaps()
    }
  }

  async function project(batch: readonly RecordedEvent[]): Promise<void> {
    const last = batch.at(-1)
    if (last === undefined) return
    const touched: Touched[] = []
    const checkpoints = new Map<string, Checkpoint>()
    const moves: (() => void)[] = []
    const read = readBatch(batch)
    /** Folds for one read model after the other: the store writes the changes of one while the next one folds. */
    async function* folded(position: Position): AsyncGenerator<Change[]> {
      for (const p of running()) {
        const own = eventsFor(p.model, read, p.position)
        const advance = await p.model.advance(own.events, views)
        touched.push(...advance.touched)
        const poison = advance.poison ?? own.poison
        const taken =
          poison === undefined
            ? position
            : batch.findLast((e) => e.position < poison.event.position)?.position
        // A position is never computed: a server takes only positions of events, to continue behind them.
        const reached = Math.max(p.position, taken ?? LOG_START)
        checkpoints.set(p.model.name, { position: reached, version: p.model.version })
        moves.push(() => {
          p.position = reached
          if (poison !== undefined) stopModel(p, poison)
        })
        if (advance.changes.length > 0) yield advance.changes
      }
    }
    await views.apply(folded(last.position), checkpoints)
    applied(touched)
    for (const move of moves) move()
    answerWaiters()
    noteGaps(batch, last.position)
  }

  /** Says what the log lacks when the models that are made again have the events that it had at the start. */
  function noteGaps(batch: readonly RecordedEvent[], position: Position): void {
    if (gaps === undefined) return
    for (const event of batch) gaps.next(event)
    if (position < endAtStart) return
    const lacks = gaps.found()
    if (lacks.length > 0) log.warn({ lacks }, `the log lacks, and so do the read models: ${lacks.join('; ')}`)
    gaps = undefined
  }

  function stopModel(p: Progress, { event, error }: Poison): void {
    const reason = error instanceof Error ? error.message : String(error)
    p.stopped = `event ${event.position} (${event.type}, ${event.stream}@${event.revision}): ${reason}`
    log.error(
      { err: error, model: p.model.name, position: event.position },
      `the read model stopped at ${p.stopped}`,
    )
  }

  /**
   * Mends checkpoints that are not the position of an event, as earlier versions computed them. A server with gaps
   * between its positions refuses to continue from there. Returns whether it mended one.
   */
  async function healed(refused: Position, error: unknown): Promise<boolean> {
    if (refused === LOG_START || error instanceof StoreUnavailable) return false
    const wrong = running().filter(({ position }) => position === refused)
    try {
      if (wrong.length === 0 || (await isPositionOfEvent(events, refused))) return false
      const names = wrong.map(({ model }) => model.name)
      log.warn(
        { models: names, position: refused },
        'a checkpoint is not the position of an event: the log is read once, up to the event before it',
      )
      const position = await lastEventUpTo(events, refused, stopping.signal)
      const mended = wrong.map(({ model: { name, version } }) => [name, { position, version }] as const)
      await views.apply([], new Map(mended))
      for (const p of wrong) p.position = position
      return true
    } catch (reason) {
      log.warn({ err: reason }, 'a checkpoint could not be mended')
      return false
    }
  }

  function answerWaiters(): void {
    const position = passed()
    for (const waiter of waiters) {
      if (waiter.position <= position) waiter.resolve(true)
    }
  }

  function startFollowing(): void {
    if (following === undefined) seen = LOG_START
    following ??= follow().finally(() => {
      following = undefined
    })
  }

  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      const after = passed()
      try {
        await projectFrom(after)
        if (running().length === 0) return
      } catch (error) {
        if (stopping.signal.aborted) return
        if (error instanceof BrokenFile) {
          // Another try cannot help. `/healthz` reports it, and queries still read what was projected so far.
          for (const p of running()) p.stopped = error.message
          log.error({ err: error }, 'the read models stopped at a broken log')
          return
        }
        if (await healed(after, error)) continue
        log.warn({ err: error }, 'the projector lost a store and tries again')
        await delay(RETRY_MS, undefined, { signal: stopping.signal }).catch(() => {})
      }
    }
  }

  /** Follows the log until no read model runs. The next batch is read while one is written. */
  async function projectFrom(after: Position): Promise<void> {
    const ending = new AbortController()
    let projecting: Promise<void> = Promise.resolve()
    const subscription = {
      after,
      signal: AbortSignal.any([stopping.signal, ending.signal]),
      batchSize: BATCH,
      passed(position: Position) {
        // The batches before it were delivered. They are passed when they are written.
        const written = () => {
          seen = position
          answerWaiters()
        }
        projecting.then(written, () => {})
      },
    }
    const batches = events.subscribe(subscription)[Symbol.asyncIterator]()
    try {
      let reading = batches.next()
      for (;;) {
        const { done, value } = await reading
        if (done === true) return
        projecting = inTurn(TURN, () => project(value))
        reading = batches.next()
        // Its error is thrown when it is awaited, if it still is.
        reading.catch(() => {})
        await projecting
        if (running().length === 0) return
      }
    } finally {
      ending.abort()
      // Not awaited: the next batch may be long in coming.
      batches.return?.().catch(() => {})
    }
  }

  function waitFor(position: Position, timeoutMs: number): Promise<boolean> {
    if (passed() >= position) return Promise.resolve(true)
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiter.resolve(false), timeoutMs)
      const waiter: Waiter = {
        position,
        resolve: (answer) => {
          clearTimeout(timer)
          waiters.delete(waiter)
          resolve(answer)
        },
      }
      waiters.add(waiter)
    })
  }

  return {
    async start() {
      await prepare()
      startFollowing()
    },
    async stop() {
      stopping.abort()
      await following
      for (const waiter of waiters) waiter.resolve(false)
    },
    waitFor,
    caughtUp: (timeoutMs) => waitFor(endAtStart, timeoutMs),
    position: passed,
    exchange: (name, replace) =>
      inTurn(TURN, async () => {
        const p = progress.find(({ model }) => model.name === name)
        if (p === undefined) throw new Error(`there is no read model ${name}`)
        p.position = await replace(
          running().reduce((most, { position }) => Math.max(most, position), LOG_START),
        )
        delete p.stopped
        // If every model had stopped, the projector no longer followed the log.
        if (!stopping.signal.aborted) startFollowing()
        answerWaiters()
      }),
    status: () =>
      progress.map(({ model: { name }, position, stopped }) =>
        stopped === undefined ? { name, position } : { name, position, stopped },
      ),
  }
}

function leastOf(progress: readonly Progress[]): Position {
  return progress.reduce((least, { position }) => Math.min(least, position), Number.MAX_SAFE_INTEGER)
}
