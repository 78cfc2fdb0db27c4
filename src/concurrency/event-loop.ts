/**
 * A fair scheduler for the event loop. Keys name clients. Work starts in the current iteration of the loop while that has
 * time left; otherwise it is queued for a later iteration. Between two iterations the loop handles all other I/O. A key
 * that has recently used much time gets less of each iteration, and keys that used less go first. Work keeps its key across
 * `await`, by an AsyncLocalStorage. Long work is split into time slices (`timeSlices`).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { createRecentUse } from './recent-use.ts'

/** Time budget of one iteration, in milliseconds. After it, no further work starts. */
const LOOP_BUDGET_MS = 3
/** The same for a key with much recent use, in milliseconds. The remaining time is for the other keys. */
const BUSY_KEY_BUDGET_MS = 1
const HALF_LIFE_MS = 1000
/** The key of the server's own work. */
const OWN = 'server'
/** Threshold of much recent use, in milliseconds: a tenth of all time for some seconds. */
const BUSY_KEY_MS = 150

export interface LoopScheduler {
  /**
   * Runs work now, or queues it for a later iteration when this one has no time left. `key` names a client, for example by
   * its network or account; the time used counts for it. The work ends with its microtasks and should take a few
   * milliseconds at most.
   */
  scheduleWork(key: string, work: () => void): void
  /** Resolves when the next slice of long work may run, always in a later iteration. Default: the current key. */
  nextSlice(key?: string): Promise<void>
  /** The key of the current work, kept across `await`; undefined for the server's own work. */
  currentWorkKey(): string | undefined
  /**
   * Continues as work of `key`, whose client may disconnect. `gone` creates the signal for that; it is called at most once,
   * and only for slow work.
   */
  continueAs(key: string, gone: (() => AbortSignal) | undefined, work: () => void): void
  /** The signal that aborts when the current work's client disconnects; undefined when the work has no such signal. */
  currentWorkSignal(): AbortSignal | undefined
  /** Resolves as the promise does. The caller then continues through the scheduler, as in `scheduleWork`. */
  awaitScheduled<T>(promise: Promise<T>): Promise<T>
}

/** The context of a client's work, also across `await`. */
interface Work {
  key: string
  /** Creates the signal that aborts when the client disconnects. */
  gone?: (() => AbortSignal) | undefined
  signal?: AbortSignal
}

interface QueuedWork {
  work: Work
  run: () => void
  /** Runs a function in the asynchronous context of the caller. Absent for work that was not queued. */
  inContext?: <R>(run: () => R) => R
}

/** Creates a scheduler. `now` returns milliseconds; `later` calls its argument in the next iteration. */
export function createLoopScheduler(
  now: () => number = () => performance.now(),
  later: (next: () => void) => void = setImmediate,
): LoopScheduler {
  const use = createRecentUse(HALF_LIFE_MS, now)
  /** The queue of each key, in order of arrival. */
  const waiting = new Map<string, QueuedWork[]>()
  /** Start time of the first work of this iteration. */
  let began: number | undefined
  const context = new AsyncLocalStorage<Work>()
  /** The running work and its start time. Reset when the microtask queue is empty. */
  let current: { work: Work; since: number } | undefined

  const isBusyKey = (key: string) => use.of(key) > BUSY_KEY_MS
  const hasTime = (key: string) =>
    began === undefined || now() - began < (isBusyKey(key) ? BUSY_KEY_BUDGET_MS : LOOP_BUDGET_MS)

  function beginIteration(): void {
    if (began !== undefined) return
    began = now()
    later(nextIteration)
  }

  function nextIteration(): void {
    began = undefined
    if (waiting.size === 0) return
    beginIteration()
    const first = use.least(waiting.keys())
    if (first !== undefined) runNext(first)
  }

  function runNext(key: string): void {
    const queue = waiting.get(key) ?? []
    const next = queue.shift()
    // Move the key to the end, for fairness among keys with equal use.
    waiting.delete(key)
    if (queue.length > 0) waiting.set(key, queue)
    if (next !== undefined) runNow(next, runFurther)
  }

  function runFurther(): void {
    const first = use.least(waiting.keys())
    if (first !== undefined && hasTime(first)) runNext(first)
  }

  /** Runs the work, counts its time, and calls `then`. */
  function runNow({ work, run, inContext }: QueuedWork, then?: () => void): void {
    count()
    const own = { work, since: now() }
    current = own
    // A tick that a microtask requests runs when the microtask queue is empty: then the work has ended.
    queueMicrotask(() =>
      process.nextTick(() => {
        if (current === own) count()
        then?.()
      }),
    )
    if (inContext === undefined) context.run(work, run)
    else inContext(() => context.run(work, run))
  }

  /** Adds the time of the current work to the use of its key. */
  function count(): void {
    if (current !== undefined) use.add(current.work.key, now() - current.since)
    current = undefined
  }

  function wait(queued: QueuedWork): void {
    // The iteration may run in the context of another client's work.
    queued.inContext = AsyncLocalStorage.snapshot()
    beginIteration()
    const queue = waiting.get(queued.work.key)
    if (queue === undefined) waiting.set(queued.work.key, [queued])
    else queue.push(queued)
  }

  function runOrQueue(queued: QueuedWork): void {
    const { key } = queued.work
    const isFirst = waiting.size === 0 || !(waiting.has(key) || isBusyKey(key))
    const goesNow = isFirst && hasTime(key)
    beginIteration()
    if (goesNow) runNow(queued)
    else wait(queued)
  }

  /**
   * Runs or queues work that continues after an `await`. Never runs it inside another client's work: several continuations
   * may become ready together.
   */
  function runContinuation(queued: QueuedWork): void {
    if (current === undefined || current.work === context.getStore()) runOrQueue(queued)
    else wait(queued)
  }

  return {
    scheduleWork: (key, run) => runOrQueue({ work: { key }, run }),
    nextSlice: (key = context.getStore()?.key ?? OWN) =>
      new Promise((resolve) => wait({ work: { key }, run: resolve })),
    currentWorkKey: () => context.getStore()?.key,
    continueAs(key, gone, run) {
      const work = { key, gone }
      const isRunning = current?.work.key === key && current.work === context.getStore()
      if (isRunning) context.run(work, run)
      else runContinuation({ work, run })
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
        const runFurther = (run: () => void) => runContinuation({ work, run })
        promise.then(
          (value) => runFurther(() => resolve(value)),
          (error: unknown) => runFurther(() => reject(error)),
        )
      })
    },
  }
}

/** The scheduler of this process, which has one event loop. */
export const { scheduleWork, nextSlice, currentWorkKey, continueAs, currentWorkSignal, awaitScheduled } =
  createLoopScheduler()

/** Length of a time slice, in milliseconds. */
const SLICE_MS = 3

export interface TimeSlices {
  /** Whether the slice has used up its time. */
  isOver(): boolean
  /** Waits for the next slice. Call it when this one is over. */
  next(): Promise<void>
  /** Waits for the next slice if this one is over. */
  pauseIfOver(): Promise<void>
}

/** Time slices of long work: call between two small steps. Default: the current key. */
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

/** Calls `work` for each item in order, and pauses after each slice. */
export async function forEachInSlices<T>(items: Iterable<T>, work: (item: T) => void): Promise<void> {
  const slices = timeSlices()
  for (const item of items) {
    work(item)
    if (slices.isOver()) await slices.next()
  }
}
