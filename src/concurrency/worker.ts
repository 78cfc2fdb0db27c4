/**
 * Background work: a worker runs a few jobs at the same time, and `selectJobs` chooses the next one. A job has an id: it runs
 * once, however often it is added while it waits, and two jobs with the same id never run at the same time. A job that fails
 * runs again after a pause. With several nodes one of them does the work: `hold` names its incarnation. When that changes,
 * the waiting jobs are dropped and loaded again. The worker stops with its signal, after the jobs that are running.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { selectJobs } from './job-selection.ts'
import { createRecentUse } from './recent-use.ts'

export interface Work {
  id: string
  /** Whose share of the time it takes. */
  account: string
}

interface Options<W extends Work> {
  /** How many are done at the same time: in all, and of one account (1 without it). */
  places: number
  placesOfAccount?: number
  /** Accounts whose work has taken more than `ms` lately have so many of the places together. */
  slow?: { ms: number; places: number }
  /** After this time, in milliseconds, what the work of an account has taken counts half. */
  halfLifeMs?: number
  /** The pause after a failure, in milliseconds: twice as long each time, up to the longest one. */
  pauseMs?: number | undefined
  longestPauseMs?: number
  /** How often all is loaded again while this node has the work. Without it, never. */
  loadEveryMs?: number
  /** Adds all that is to be done, when this node begins with it: at a start, or after another node. */
  load(): Promise<void>
  /**
   * Does one. Resolves to after how many milliseconds it is done again, if at all. `failures`: how often it has failed, one
   * time after the other.
   */
  work(one: W, failures: number): Promise<number | undefined>
  /** Is told what failed; without `one`, that what is to be done could not be loaded. */
  failed(error: unknown, one?: W): void
}

const HALF_LIFE_MS = 10 * 60_000
const PAUSE_MS = 2000
const LONGEST_PAUSE_MS = 64_000
/** How often it looks whether this node has the work, and whether it is to be loaded. */
const LOOK_MS = 500

interface Waiting<W> {
  one: W
  account: string
  failures: number
  /** From when on it may be done, in milliseconds of a clock that is never set. */
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
  /** Ends the pause. Without one it does nothing. */
  let wake = () => {}
  let loadedFor: string | undefined
  let loadAt = 0
  let working: Promise<void> = Promise.resolve()
  signal.addEventListener('abort', () => wake(), { once: true })

  /** A pause does not keep the process alive. */
  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.min(Math.max(0, ms), LOOK_MS)).unref()
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

  /** Begins what may begin. Returns when the next one may. */
  function beginAll(): number {
    let next = Number.POSITIVE_INFINITY
    // What ends wakes us.
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
        await pause(loadedFor === undefined ? LOOK_MS : beginAll() - performance.now())
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
     * Has it done by the worker, after so many milliseconds at the earliest. Resolves when it is done; never, when this node
     * does not do it. What is being done is done again: it may have begun too early.
     */
    add,
    /** What waits with this id. */
    waiting: (id: string): W | undefined => waiting.get(id)?.one,
    /** Forgets what waits with this id. Returns whether such work is being done now. */
    remove(id: string): boolean {
      waiting.delete(id)
      return busy.has(id)
    },
    /** Begins to work, while this node has the work; without `hold`, each node works. */
    start(hold: () => string | undefined = () => 'here'): void {
      working = keepWorking(hold)
    },
    /** Resolves when the worker has ended, after the signal was aborted. */
    stopped: () => working,
  }
}
