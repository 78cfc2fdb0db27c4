/**
 * Background work: runs a few jobs at the same time, and `selectJobs` selects the next one. A job has an id: it runs once,
 * however often it is added while it waits, and two jobs with the same id never run at the same time. A failed job runs
 * again after a backoff. With several nodes one of them does the work: `hold` returns its incarnation. When that changes,
 * the waiting jobs are dropped and loaded again. The worker stops with its signal, after the running jobs.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { selectJobs } from './job-selection.ts'
import { createRecentUse } from './recent-use.ts'

export interface Work {
  id: string
  /** The account whose share of the time it uses. */
  account: string
}

interface Options<W extends Work> {
  /** Number of jobs that run at the same time: in total, and for one account (default 1). */
  places: number
  placesOfAccount?: number
  /** Limits accounts whose jobs took more than `ms` recently to `places` slots together. */
  slow?: { ms: number; places: number }
  /** Half-life of an account's recent use, in milliseconds. */
  halfLifeMs?: number
  /** First backoff after a failure, in milliseconds; it doubles up to `longestPauseMs`. */
  pauseMs?: number | undefined
  longestPauseMs?: number
  /** Interval for loading all jobs again, in milliseconds. Default: never. */
  loadEveryMs?: number
  /** Adds all pending jobs when this node takes over the work. */
  load(): Promise<void>
  /**
   * Runs a job. Resolves to the delay in milliseconds after which it runs again, if at all. `failures` counts consecutive
   * failures.
   */
  work(one: W, failures: number): Promise<number | undefined>
  /** Reports a failed job; without `one`, a failure of `load`. */
  failed(error: unknown, one?: W): void
}

const HALF_LIFE_MS = 10 * 60_000
const PAUSE_MS = 2000
const LONGEST_PAUSE_MS = 64_000
/** Interval for checking `hold` and `loadEveryMs`, in milliseconds. */
const CHECK_MS = 500

interface Waiting<W> {
  one: W
  account: string
  failures: number
  /** Earliest start, on the monotonic clock, in milliseconds. */
  due: number
  done: Promise<void>
  tell: () => void
}

export function createWorker<W extends Work>(options: Options<W>, signal: AbortSignal) {
  const { places, placesOfAccount = 1, slow, pauseMs = PAUSE_MS, longestPauseMs = LONGEST_PAUSE_MS } = options
  const waiting = new Map<string, Waiting<W>>()
  const busy = new Map<string, { account: string; done: Promise<void> }>()
  const used = createRecentUse(options.halfLifeMs ?? HALF_LIFE_MS, () => performance.now())
  const isSlow = (account: string) => slow !== undefined && used.of(account) > slow.ms
  /** Ends the current pause. */
  let wake = () => {}
  let loadedFor: string | undefined
  let loadAt = 0
  let working: Promise<void> = Promise.resolve()
  signal.addEventListener('abort', () => wake(), { once: true })

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.min(Math.max(0, ms), CHECK_MS)).unref()
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
      if (signal.aborted) wake()
    })

  function wait(
    one: W,
    due: number,
    failures: number,
    told?: Pick<Waiting<W>, 'done' | 'tell'>,
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const { done, tell } = told ?? { done: promise, tell: resolve }
    waiting.set(one.id, { one, account: one.account, failures, due, done, tell })
    wake()
    return done
  }

  function add(one: W, inMs = 0): Promise<void> {
    const before = waiting.get(one.id)
    return wait(one, Math.min(before?.due ?? Number.POSITIVE_INFINITY, performance.now() + inMs), 0, before)
  }

  async function doOne(next: Waiting<W>): Promise<void> {
    const { one, failures, tell } = next
    const doneFor = loadedFor
    const began = performance.now()
    try {
      const again = await options.work(one, failures)
      tell()
      const newer = waiting.get(one.id)
      if (again !== undefined && doneFor === loadedFor)
        void wait(newer?.one ?? one, performance.now() + again, 0, newer)
    } catch (error) {
      if (signal.aborted) return
      options.failed(error, one)
      if (doneFor !== loadedFor) return
      const newer = waiting.get(one.id)
      const pause = Math.min(longestPauseMs, pauseMs * 2 ** failures)
      const due = Math.max(newer?.due ?? 0, performance.now() + pause)
      // A job that was added meanwhile would fail for the same reason, so it waits as long.
      void wait(newer?.one ?? one, due, failures + 1, newer ?? next)
      void newer?.done.then(tell)
    } finally {
      busy.delete(one.id)
      used.add(one.account, performance.now() - began)
      wake()
    }
  }

  /** Starts the jobs that are due. Returns when the next one is due. */
  function beginAll(): number {
    let next = Number.POSITIVE_INFINITY
    // The end of a job wakes the loop.
    if (busy.size >= places) return next
    const now = performance.now()
    const ready: Waiting<W>[] = []
    for (const one of waiting.values()) {
      if (busy.has(one.one.id)) continue
      if (one.due <= now) ready.push(one)
      else next = Math.min(next, one.due)
    }
    const accounts = [...busy.values()].map(({ account }) => account)
    const freeForSlow = (slow?.places ?? places) - accounts.filter(isSlow).length
    const freeFor = (account: string) => placesOfAccount - accounts.filter((one) => one === account).length
    for (const one of selectJobs(ready, { free: places - busy.size, freeForSlow, freeFor, isSlow, used })) {
      const { id, account } = one.one
      waiting.delete(id)
      busy.set(id, { account, done: doOne(one) })
    }
    return next
  }

  async function load(held: string | undefined): Promise<void> {
    if (loadedFor !== undefined && held !== loadedFor) {
      loadedFor = undefined
      waiting.clear()
    }
    if (held === undefined || (loadedFor !== undefined && performance.now() < loadAt)) return
    await options.load()
    loadedFor = held
    loadAt = performance.now() + (options.loadEveryMs ?? Number.POSITIVE_INFINITY)
  }

  async function keepWorking(hold: () => string | undefined): Promise<void> {
    while (!signal.aborted) {
      try {
        await load(hold())
        await pause(loadedFor === undefined ? CHECK_MS : beginAll() - performance.now())
      } catch (error) {
        if (signal.aborted) break
        options.failed(error)
        await delay(Math.min(pauseMs, PAUSE_MS), undefined, { signal }).catch(() => {})
      }
    }
    await Promise.all(busy.values().map(({ done }) => done))
  }

  return {
    /**
     * Adds a job that starts after `inMs` at the earliest. Resolves when it is done; never, if another node does the work.
     * A job that is running runs again: it may have started too early.
     */
    add,
    /** Returns the waiting job with this id. */
    waiting: (id: string): W | undefined => waiting.get(id)?.one,
    /** Drops the waiting job with this id. Returns whether such a job is running. */
    remove(id: string): boolean {
      waiting.delete(id)
      return busy.has(id)
    },
    /** Starts the worker. `hold` returns the incarnation while this node does the work; by default each node does. */
    start(hold: () => string | undefined = () => 'here'): void {
      working = keepWorking(hold)
    },
    /** Resolves when the worker has ended, after its signal was aborted. */
    stopped: () => working,
  }
}
