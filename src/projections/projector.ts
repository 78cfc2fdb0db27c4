/**
 * Folds the log into the read models, in order and in batches. Each batch writes its documents and checkpoints
 * together, so the projector may stop at any point. In a store that several servers share, a server folds only the
 * models that it holds, and follows the others: see `shared-models.ts`.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { createTurns } from '../concurrency/turns.ts'
import { isDiskFull } from '../disk-full.ts'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../events/event-store.ts'
import { readAhead } from '../events/read-ahead.ts'
import { BrokenFile } from '../sqlite.ts'
import { type BatchInWork, type FoldedAhead, foldAhead } from './fold-ahead.ts'
import { type Advancing, foldBatch } from './fold-batch.ts'
import { ReplacedMeanwhile } from './generations.ts'
import { createModelStarts } from './model-starts.ts'
import { createPositions, startOf } from './positions.ts'
import type { Advance, ReadModel } from './read-model.ts'
import { LostHold, type ReadStore, type Touched } from './read-store.ts'
import { readBatch } from './readable-events.ts'
import { roughSize } from './rough-size.ts'
import { createSharedModels, isFollowed, type Progress, type Sharing } from './shared-models.ts'
import { stopModels } from './stopped-models.ts'
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
   * Resolves when queries show what had been written before the call, by this server or by another. Undefined when they
   * do already. @throws StoreUnavailable when this server cannot know it within 5 s
   */
  current(): Promise<void> | undefined
  /** The position that every running read model has reached; when none runs, that every one has reached. */
  position(): Position
  status(): ReadModelStatus[]
  /** Those of `status` that have stopped; almost always none. */
  stopped(): ReadModelStatus[]
  /** Whether the last batch could not be written because the disk is full. It is tried again. */
  isDiskFull(): boolean
  /**
   * Makes this server the one that writes a read model, in a store that several share.
   * @throws StoreUnavailable when the server that writes it does not give it within 10 s
   */
  hold(model: string): Promise<void>
  /**
   * Replaces the documents of a read model with rebuilt ones. It does so between two batches, so that nothing is
   * written meanwhile. `replace` must bring the new documents at least to the position that it gets, and resolves to
   * the position that they hold. The model continues from there, even if it had stopped.
   */
  exchange(model: string, replace: (position: Position) => Promise<Position>): Promise<void>
}

/** Runs `work`, which writes what follows from a batch of events, and resolves or rejects as it does. */
export type AroundBatch = (batch: readonly RecordedEvent[], work: () => Promise<void>) => Promise<void>

/** All work of a projector shares this key, so it runs one at a time. */
const TURN = 'batch'

const RETRY_MS = 500
const BATCH = 1000
/** An event of refs changes a document for each of them, and those are read and written in one go. */
const WEIGHT_OF_REF = 2
/** Other events weigh by their size, because what waits is in memory: so many characters weigh as much as a small event. */
const CHARACTERS = 16 * 1024
/** As how many small events an event counts. An event with members counts once for each of them. */
const weightOf = ({ data }: RecordedEvent) => {
  if ('refs' in data && Array.isArray(data.refs)) return Math.max(1, WEIGHT_OF_REF * data.refs.length)
  if ('members' in data && Array.isArray(data.members)) return Math.max(1, data.members.length)
  return Math.max(1, roughSize(data) / CHARACTERS)
}
/** More is waiting behind such a batch. Behind a small one, what comes while it is written is better one batch. */
const isLarge = (batch: readonly RecordedEvent[]) =>
  batch.length >= BATCH / 2 || batch.reduce((weight, event) => weight + weightOf(event), 0) >= BATCH / 2
const NOT_AHEAD: ReadonlyMap<Progress, Advance> = new Map()
/** How often a server looks for models that nobody writes any more. */
const TAKE_MS = 1000
/** How long a server waits until another one gives it a read model. */
const HOLD_MS = 10_000
/** Pauses between two looks at what other servers have written, while somebody waits for it: at first, and later. */
const LOOK_MS = [1, 20] as const
/** For how long somebody waits at first. */
const AT_FIRST_MS = 50

export function createProjector(
  log: FastifyBaseLogger,
  events: EventStore,
  views: ReadStore,
  models: readonly ReadModel[],
  /** Called with the documents of a batch after it was written, and before `waitFor` resolves. */
  applied: (touched: readonly Touched[]) => void = () => {},
  /** Needed when other servers share the store. */
  sharing?: Sharing,
  /** Runs the work on a batch, so that others see how long it takes. */
  around: AroundBatch = (_batch, work) => work(),
): Projector {
  const stopping = new AbortController()
  const isShared = views.shared !== undefined && sharing !== undefined
  const progress: Progress[] = models.map((model) => ({
    model,
    position: LOG_START,
    ...(isShared && { written: LOG_START }),
  }))
  const shared =
    views.shared === undefined || sharing === undefined
      ? undefined
      : createSharedModels(progress, views.shared, sharing, {
          touched: applied,
          moved: () => answerWaiters(),
          changed() {
            beginAnew()
            answerWaiters()
          },
          anotherIncarnation: () => takeModels(),
        })
  const waiters = createWaiters()
  /** Undefined while the projector does not follow the log. */
  let following: Promise<void> | undefined
  let taking: Promise<void> | undefined
  let looking: Promise<void> | undefined
  /** Runs batches and exchanges one at a time. */
  const inTurn = createTurns()

  const positions = createPositions(progress, views, shared?.move, savePositions)
  const documents = createWrittenDocuments(views)
  const starts = createModelStarts({ log, events, views, progress, positions, documents })

  /** The last event that came. It may be written later, or have to come again. */
  let last: Position = LOG_START
  /** How far subscriptions have passed the log: between `last` and here are only events of others. */
  let seen: Position = LOG_START
  /** Ends the subscription, so that it begins anew. */
  let beginAnew = () => {}

  const running = () => progress.filter((p) => p.stopped === undefined)
  /** The last event that every running read model has taken. */
  const taken = () => leastOf(running())
  /** What stopped models have not taken is never passed: when none runs, nothing more is. */
  const passed = () => {
    if (running().length === 0) return leastOf(progress)
    return taken() < last ? taken() : Math.max(taken(), seen)
  }

  async function prepare(): Promise<void> {
    const checkpoints = await starts.read()
    if (shared === undefined) {
      for (const p of progress) await starts.begin(p, checkpoints.get(p))
      return
    }
    // Nothing is remembered yet, so there is nothing to forget of what others have written.
    for (const [p, { position }] of checkpoints) Object.assign(p, { position, written: position })
    await shared.take(starts.begin).catch((error: unknown) => {
      // Another server has it now: this one follows.
      if (!(error instanceof LostHold)) throw error
    })
  }

  /** Whether the disk was full when the last batch was written. */
  let diskIsFull = false

  const advancing = (batch: readonly RecordedEvent[]): Advancing => ({
    views: documents,
    mayRepeat: starts.mayRepeat(batch[0]?.position ?? LOG_START),
  })

  /** Begins to project a batch, when earlier work is done. */
  function begin(
    batch: readonly RecordedEvent[],
    ahead: FoldedAhead | undefined,
    signal: AbortSignal,
  ): BatchInWork {
    // Before the batch is written: the subscription may say earlier that it has passed the batch.
    last = Math.max(last, batch.at(-1)?.position ?? LOG_START)
    const { promise: folded, resolve: isFolded } = Promise.withResolvers<void>()
    const written = inTurn(TURN, async () => {
      // Models may have been taken since: what comes next for them is before this batch.
      if (!signal.aborted) await around(batch, () => project(batch, ahead, isFolded))
    })
    return { folded, written: written.finally(isFolded) }
  }

  async function project(
    batch: readonly RecordedEvent[],
    ahead: FoldedAhead | undefined,
    isFolded: () => void,
  ): Promise<void> {
    const end = batch.at(-1)
    if (end === undefined) return
    const read = ahead?.read ?? readBatch(batch)
    const models = running().filter((p) => !isFollowed(p))
    const { changes, made, touched, checkpoints, reached, poisoned } = foldBatch(batch, read, models, {
      ...advancing(batch),
      together: views.shared !== undefined,
      ahead: ahead?.age === documents.age() ? ahead.advanced : NOT_AHEAD,
      folded(all) {
        documents.writing(all)
        isFolded()
      },
      requireWriter: () => shared?.requireMember(),
    })
    const written = () => {
      documents.written(made)
      // What is stored may be later than what was folded again: whoever wants a document reads it then.
      applied(
        starts.mayRepeat(end.position) ? touched.map(({ collection, id }) => ({ collection, id })) : touched,
      )
    }
    try {
      const found = await startOf(changes)
      if (found === undefined && checkpoints.size === 0) written()
      else await positions.write(found ?? [], checkpoints, written)
      diskIsFull = false
    } catch (error) {
      diskIsFull = isDiskFull(error)
      // Nobody knows what of the batch was written.
      documents.forget()
      starts.repeatsUpTo(end.position)
      throw error
    }
    for (const [p, at] of reached) Object.assign(p, at)
    stopModels(log, poisoned)
    shared?.add(read, end.position)
    answerWaiters()
    positions.saveSoon()
    starts.passed(batch, end.position)
  }

  /** Writes the checkpoints that were not worth a write before. */
  async function savePositions(): Promise<void> {
    try {
      await inTurn(TURN, positions.saveAll)
    } catch (error) {
      // It is tried again. Until then, nothing is wrong: the events after the checkpoints have changed nothing.
      log.debug({ err: error }, 'checkpoints were not written')
      if (error instanceof LostHold && !stopping.signal.aborted) await takeModels().catch(() => {})
    }
  }

  const answerWaiters = () => waiters.answer(passed())

  function startFollowing(): void {
    following ??= follow().finally(() => {
      following = undefined
    })
  }

  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      const after = passed()
      try {
        await projectFrom(after)
        if (running().length === 0 && shared === undefined) return
      } catch (error) {
        if (stopping.signal.aborted) return
        if (error instanceof LostHold) {
          log.warn({ err: error }, 'another server writes the read models now')
          await takeModels().catch(() => {})
          await delay(RETRY_MS, undefined, { signal: stopping.signal }).catch(() => {})
          continue
        }
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

  /** Follows the log until no read model runs. */
  async function projectFrom(after: Position): Promise<void> {
    const ending = new AbortController()
    const { signal } = ending
    const batches = readAhead(events, {
      after,
      signal: AbortSignal.any([stopping.signal, signal]),
      batchSize: BATCH,
      weightOf,
      passed(position) {
        seen = position
        shared?.passed(position)
        answerWaiters()
        // The log may end with events of others.
        starts.passed([], passed())
      },
    })
    shared?.restart(after)
    beginAnew = () => ending.abort()
    /** The last batch that was begun. */
    let inWork: BatchInWork | undefined
    const allHaveStopped = () => running().length === 0 && shared === undefined
    try {
      for await (const batch of batches) {
        const ahead = inWork && (await foldAhead(batch, inWork, running(), advancing(batch), documents.age()))
        await inWork?.written
        if (allHaveStopped()) return
        inWork = begin(batch, ahead, signal)
        // Whoever waits for the next batch learns of it.
        inWork.written.catch(() => ending.abort())
        if (isLarge(batch) && shared === undefined) continue
        await inWork.written
        inWork = undefined
        if (allHaveStopped()) return
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
    await inWork?.written
  }

  /** Takes the models that nobody writes any more. */
  async function takeModels(forced?: string): Promise<void> {
    await inTurn(TURN, async () => shared?.take(starts.begin, forced))
  }

  async function keepTaking(): Promise<void> {
    while (!stopping.signal.aborted) {
      await delay(TAKE_MS, undefined, { signal: stopping.signal }).catch(() => {})
      if (stopping.signal.aborted) return
      // Without the store there is nothing to take: the next look may have it back.
      await takeModels().catch((error: unknown) =>
        log.debug({ err: error }, 'the read models were not looked at'),
      )
      await shared?.observe().catch(() => {})
    }
  }

  /** Looks at what other servers have written, as long as somebody waits for it. */
  async function lookForWaiters(): Promise<void> {
    while (!waiters.isEmpty() && !stopping.signal.aborted) {
      await shared?.observe().catch(() => {})
      const pause = waiters.youngestAge() < AT_FIRST_MS ? LOOK_MS[0] : LOOK_MS[1]
      if (!waiters.isEmpty()) await delay(pause, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }

  function modelNamed(name: string): Progress {
    const p = progress.find(({ model }) => model.name === name)
    if (p === undefined) throw new Error(`there is no read model ${name}`)
    return p
  }

  function waitFor(position: Position, timeoutMs: number): Promise<boolean> {
    if (passed() >= position) return Promise.resolve(true)
    const waiting = waiters.wait(position, timeoutMs)
    if (progress.some(isFollowed))
      looking ??= lookForWaiters().finally(() => {
        looking = undefined
      })
    return waiting
  }

  return {
    async start() {
      await prepare()
      startFollowing()
      if (shared !== undefined) taking = keepTaking()
    },
    async stop() {
      stopping.abort()
      positions.stop()
      await Promise.all([following, taking, looking])
      await savePositions()
      // If this fails, the others take the models when they find out that this server is gone.
      await shared?.giveUp().catch(() => {})
      waiters.giveUp()
    },
    waitFor,
    caughtUp: (timeoutMs) => waitFor(starts.endAtStart(), timeoutMs),
    current: () => shared?.current(),
    position: passed,
    async hold(name) {
      const p = modelNamed(name)
      for (const deadline = performance.now() + HOLD_MS; isFollowed(p); ) {
        if (performance.now() > deadline || stopping.signal.aborted)
          throw new StoreUnavailable(`the server that writes the read model ${name} does not give it`)
        await shared?.want(p)
        await delay(LOOK_MS[1], undefined, { signal: stopping.signal })
        await takeModels(name)
      }
    },
    exchange: (name, replace) =>
      inTurn(TURN, async () => {
        const p = modelNamed(name)
        if (isFollowed(p)) throw new ReplacedMeanwhile(name)
        // Not before what came last: that does not come again.
        documents.forget(p.model.collection)
        p.position = await replace(running().reduce((most, { position }) => Math.max(most, position), last))
        positions.isSaved(name, p.position)
        delete p.stopped
        // If every model had stopped, the projector no longer followed the log.
        if (!stopping.signal.aborted) startFollowing()
        answerWaiters()
      }),
    status: () => progress.map(statusOf),
    stopped: () => progress.filter(({ stopped }) => stopped !== undefined).map(statusOf),
    isDiskFull: () => diskIsFull,
  }
}

function statusOf({ model: { name }, position, stopped }: Progress): ReadModelStatus {
  return stopped === undefined ? { name, position } : { name, position, stopped }
}

function leastOf(progress: readonly Progress[]): Position {
  return progress.reduce((least, { position }) => Math.min(least, position), Number.MAX_SAFE_INTEGER)
}
