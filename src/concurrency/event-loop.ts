/**
 * Shares out the event loop, among keys that name clients. Work begins in this turn of the loop while that has time;
 * otherwise it waits for a later turn, and between two turns the loop serves everyone else. Who has used much of the loop
 * lately gets less of each turn, and comes after those who have used less. Work keeps its key while it waits, by an
 * AsyncLocalStorage. Long work is done in slices: after a few milliseconds it waits for its next piece (`timeSlices`).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { createRecentUse } from './recent-use.ts'

/** When this much of a turn is gone, in milliseconds, nothing further begins in it. */
const TURN_MS = 3
/** The same for a key that has used much: the rest of each turn is for the others. */
const TURN_OF_MUCH_MS = 1
const HALF_LIFE_MS = 1000
/** Whose work it is that no client has asked for. */
const OWN = 'server'
/** To have used more than this is much, in milliseconds: a tenth of all time for some seconds. */
const MUCH_MS = 150

export interface LoopScheduler {
  /**
   * Does a piece of work now, or in a later turn of the event loop when this one has no time left. `key` is whose work it
   * is: a client's network or account, for example. What it takes is counted, so that who has much to do waits behind
   * itself. The work ends with its microtasks; it should take a few milliseconds at most.
   */
  scheduleWork(key: string, work: () => void): void
  /** Resolves when one piece of long work may be done, never in this turn of the loop. Without a key, for who works now. */
  nextSlice(key?: string): Promise<void>
  /** The key of the work that runs now; it keeps its key while it waits. Undefined for work that the server does by itself. */
  currentWorkKey(): string | undefined
  /**
   * Goes on as work of `key`, for somebody who may go away: `gone` makes the signal that is aborted then. It is called
   * once at most, when something takes long.
   */
  continueAs(key: string, gone: (() => AbortSignal) | undefined, work: () => void): void
  /** Aborted when nobody waits any more for what is done now. Undefined when it is done in any case. */
  currentWorkSignal(): AbortSignal | undefined
  /** Resolves as the promise does. The work that waits for it continues in a turn of its own, as in `workInTurn`. */
  awaitScheduled<T>(promise: Promise<T>): Promise<T>
}

/** Work of somebody: all that follows from a call belongs to it, also what waits. */
interface Work {
  key: string
  /** Makes the signal that is aborted when nobody waits for the work any more. */
  gone?: (() => AbortSignal) | undefined
  signal?: AbortSignal
}

interface Piece {
  work: Work
  run: () => void
}

/** @param now milliseconds @param later calls what it gets in the next turn of the loop */
export function createLoopScheduler(
  now: () => number = () => performance.now(),
  later: (next: () => void) => void = setImmediate,
): LoopScheduler {
  const use = createRecentUse(HALF_LIFE_MS, now)
  /** What waits for a later turn, by key, in order of arrival. */
  const waiting = new Map<string, Piece[]>()
  /** When the first work of this turn of the loop began; undefined before it. */
  let began: number | undefined
  const context = new AsyncLocalStorage<Work>()
  /** Whose turn it is, and since when: until there are no microtasks left. */
  let current: { work: Work; since: number } | undefined

  const hasUsedMuch = (key: string) => use.of(key) > MUCH_MS
  const hasTime = (key: string) =>
    began === undefined || now() - began < (hasUsedMuch(key) ? TURN_OF_MUCH_MS : TURN_MS)

  function beginTurn(): void {
    if (began !== undefined) return
    began = now()
    later(nextTurn)
  }

  function nextTurn(): void {
    began = undefined
    if (waiting.size === 0) return
    beginTurn()
    const first = use.least(waiting.keys())
    if (first !== undefined) letGo(first)
  }

  function letGo(key: string): void {
    const queue = waiting.get(key) ?? []
    const next = queue.shift()
    // To the end of the line, which counts among those that have used as much.
    waiting.delete(key)
    if (queue.length > 0) waiting.set(key, queue)
    if (next !== undefined) doNow(next, goOn)
  }

  function goOn(): void {
    const first = use.least(waiting.keys())
    if (first !== undefined && hasTime(first)) letGo(first)
  }

  /** Does it, counts what it takes, and calls `then`. */
  function doNow({ work, run }: Piece, then?: () => void): void {
    count()
    const own = { work, since: now() }
    current = own
    // A tick that a microtask asks for comes when there are no microtasks left: then its work is done.
    queueMicrotask(() =>
      process.nextTick(() => {
        if (current === own) count()
        then?.()
      }),
    )
    context.run(work, run)
  }

  /** Whose work ends, or goes on in the name of another key, has used its time. */
  function count(): void {
    if (current !== undefined) use.add(current.work.key, now() - current.since)
    current = undefined
  }

  function wait(piece: Piece): void {
    beginTurn()
    const queue = waiting.get(piece.work.key)
    if (queue === undefined) waiting.set(piece.work.key, [piece])
    else queue.push(piece)
  }

  function inTurn(piece: Piece): void {
    const { key } = piece.work
    const isFirst = waiting.size === 0 || !(waiting.has(key) || hasUsedMuch(key))
    const goesNow = isFirst && hasTime(key)
    beginTurn()
    if (goesNow) doNow(piece)
    else wait(piece)
  }

  /**
   * The same for what goes on after a wait: perhaps together with others, and each in its own turn. So it does not begin
   * in the turn of somebody else.
   */
  function inOwnTurn(piece: Piece): void {
    if (current === undefined || current.work === context.getStore()) inTurn(piece)
    else wait(piece)
  }

  return {
    scheduleWork: (key, run) => inTurn({ work: { key }, run }),
    nextSlice: (key = context.getStore()?.key ?? OWN) =>
      new Promise((resolve) => wait({ work: { key }, run: resolve })),
    currentWorkKey: () => context.getStore()?.key,
    continueAs(key, gone, run) {
      const work = { key, gone }
      const hasTurn = current?.work.key === key && current.work === context.getStore()
      if (hasTurn) context.run(work, run)
      else inOwnTurn({ work, run })
    },
    currentWorkSignal() {
      const work = context.getStore()
      if (work?.gone !== undefined) work.signal ??= work.gone()
      return work?.signal
    },
    awaitScheduled(promise) {
      const work = context.getStore()
      if (work === undefined) return promise
      return new Promise((resolve, reject) => {
        const goOn = (run: () => void) => inOwnTurn({ work, run })
        promise.then(
          (value) => goOn(() => resolve(value)),
          (error: unknown) => goOn(() => reject(error)),
        )
      })
    },
  }
}

/** Of this process: it has one event loop. */
export const { scheduleWork, nextSlice, currentWorkKey, continueAs, currentWorkSignal, awaitScheduled } =
  createLoopScheduler()

/** How long a piece may take, in milliseconds. */
const SLICE_MS = 3

export interface TimeSlices {
  /** Whether this piece has taken its time. */
  isOver(): boolean
  /** Waits for the next one. Call it when this one is over. */
  next(): Promise<void>
  /** Both: resolves at once, or when the next piece may begin. */
  pauseIfOver(): Promise<void>
}

/** The slices of long work, to ask between two small things. `key`: whose work it is; without it, of who works now. */
export function timeSlices(key = currentWorkKey()): TimeSlices {
  let began = performance.now()
  const isOver = () => performance.now() - began > SLICE_MS
  async function next(): Promise<void> {
    await nextSlice(key)
    began = performance.now()
  }
  return {
    isOver,
    next,
    async pauseIfOver() {
      if (isOver()) await next()
    },
  }
}

/** Calls `work` for each item in order. What takes less than a piece is done without a wait. */
export async function forEachInSlices<T>(items: Iterable<T>, work: (item: T) => void): Promise<void> {
  const slices = timeSlices()
  for (const item of items) {
    work(item)
    if (slices.isOver()) await slices.next()
  }
}
