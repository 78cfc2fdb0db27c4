/**
 * Folds the log into the read models, in order and in batches. Each batch writes its documents and checkpoints
 * together, so the projector may stop at any point. Every node may run its own projector: folds are deterministic, and
 * documents record their position.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { decode } from '../events/codec.ts'
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import { type EventStore, LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import { BrokenFile } from '../sqlite.ts'
import { createTurns } from '../turns.ts'
import type { ReadModel } from './read-model.ts'
import type { Change, Checkpoint, ReadStore, Touched } from './read-store.ts'

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
  /** The position that every running read model has reached. */
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
  let following: Promise<void> = Promise.resolve()
  let isFollowing = false
  /** Runs batches and exchanges one at a time. */
  const inTurn = createTurns()

  const running = () => progress.filter((p) => p.stopped === undefined)
  const passed = () => running().reduce((least, p) => Math.min(least, p.position), Number.MAX_SAFE_INTEGER)

  async function prepare(): Promise<void> {
    await views.prepare(models.map((model) => model.collection))
    const checkpoints = new Map<Progress, Checkpoint>()
    for (const p of progress) {
      const checkpoint = await views.checkpoint(p.model.name)
      if (checkpoint !== undefined) checkpoints.set(p, checkpoint)
    }
    requireAll(checkpoints, await events.lastPosition())
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
    }
  }

  /**
   * Refuses a log that ends before a checkpoint: it was cut off, or is an older copy. The read models would skip new
   * events up to the checkpoint without notice.
   */
  function requireAll(checkpoints: ReadonlyMap<Progress, Checkpoint>, last: Position): void {
    for (const [{ model }, { position }] of checkpoints) {
      if (position <= last) continue
      const problem = `it ends at position ${last}, and the read model ${model.name} holds events up to ${position}`
      throw new BrokenFile('the log', problem)
    }
  }

  async function project(batch: readonly RecordedEvent[]): Promise<void> {
    const last = batch.at(-1)
    if (last === undefined) return
    const changes: Change[] = []
    const touched: Touched[] = []
    const checkpoints = new Map<string, Checkpoint>()
    const moves: (() => void)[] = []
    const { events: decoded, error: unreadable } = decodeAll(batch)
    for (const p of running()) {
      const advance = await p.model.advance(
        decoded.filter((event) => event.position > p.position),
        views,
      )
      changes.push(...advance.changes)
      touched.push(...advance.touched)
      const poison = advance.poison ?? unreadable
      const position = poison === undefined ? last.position : Math.max(p.position, poison.event.position - 1)
      checkpoints.set(p.model.name, { position, version: p.model.version })
      moves.push(() => {
        p.position = position
        if (poison !== undefined) stopModel(p, poison.event, poison.error)
      })
    }
    await views.apply(changes, checkpoints)
    applied(touched)
    for (const move of moves) move()
    answerWaiters()
  }

  function stopModel(p: Progress, event: RecordedEvent, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    p.stopped = `event ${event.position} (${event.type}, ${event.stream}@${event.revision}): ${reason}`
    log.error(
      { err: error, model: p.model.name, position: event.position },
      `the read model stopped at ${p.stopped}`,
    )
  }

  function answerWaiters(): void {
    const position = passed()
    for (const waiter of waiters) {
      if (waiter.position <= position) waiter.resolve(true)
    }
  }

  function startFollowing(): void {
    isFollowing = true
    following = follow().finally(() => {
      isFollowing = false
    })
  }

  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const subscription = { after: passed(), signal: stopping.signal, batchSize: BATCH }
        for await (const batch of events.subscribe(subscription)) {
          await inTurn(TURN, () => project(batch))
          if (running().length === 0) return
        }
      } catch (error) {
        if (stopping.signal.aborted) return
        if (error instanceof BrokenFile) {
          // Another try cannot help. `/healthz` reports it, and queries still read what was projected so far.
          for (const p of running()) p.stopped = error.message
          log.error({ err: error }, 'the read models stopped at a broken log')
          return
        }
        log.warn({ err: error }, 'the projector lost a store and tries again')
        await delay(RETRY_MS, undefined, { signal: stopping.signal }).catch(() => {})
      }
    }
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
    waitFor(position, timeoutMs) {
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
    },
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
        if (!isFollowing && !stopping.signal.aborted) startFollowing()
        answerWaiters()
      }),
    status: () =>
      progress.map(({ model, position, stopped }) =>
        stopped === undefined ? { name: model.name, position } : { name: model.name, position, stopped },
      ),
  }
}

/** Decodes the events up to the first one that cannot be read. Also returns that event with its error. */
function decodeAll(batch: readonly RecordedEvent[]): {
  events: Recorded<DomainEvent>[]
  error?: { event: RecordedEvent; error: unknown }
} {
  const events: Recorded<DomainEvent>[] = []
  for (const event of batch) {
    try {
      events.push(decode(event))
    } catch (error) {
      return { events, error: { event, error } }
    }
  }
  return { events }
}
