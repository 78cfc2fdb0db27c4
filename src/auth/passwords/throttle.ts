/**
 * Limits failures within a time window, and lets excess attempts continue slowly. Bounded. `now` measures durations
 * only, since the clock may be set.
 */
import { LRUCache } from 'lru-cache'
import { boundedKey } from '../../concurrency/bounded-key.ts'
import { createSemaphore, pauseAfter, type SemaphoreLimits } from '../../concurrency/semaphore.ts'

export interface ThrottleLimits {
  failures: number
  /** In milliseconds, from the first failure; then counting starts again. */
  windowMs: number
}

interface Throttle {
  /** Seconds until the key may try again, at least 1; undefined when it may now. */
  blockedFor(key: string): number | undefined
  /**
   * Counts an attempt as a failure before its outcome is known, so that many simultaneous attempts cannot all pass.
   * The returned function removes the failure again.
   */
  attempt(key: string): () => void
}

interface Count {
  failures: number
  /** When counting starts again, in milliseconds of `now`. */
  until: number
}

const MAX_KEYS = 10_000

export function createThrottle(
  { failures, windowMs }: ThrottleLimits,
  now: () => number = () => performance.now(),
): Throttle {
  const counts = new LRUCache<string, Count>({ max: MAX_KEYS })

  function current(key: string): Count | undefined {
    const count = counts.get(boundedKey(key))
    return count !== undefined && count.until > now() ? count : undefined
  }

  return {
    blockedFor(key) {
      const count = current(key)
      if (count === undefined || count.failures < failures) return undefined
      return Math.max(1, Math.ceil((count.until - now()) / 1000))
    },
    attempt(key) {
      const count = current(key) ?? { failures: 0, until: now() + windowMs }
      count.failures += 1
      counts.set(boundedKey(key), count)
      return () => {
        count.failures -= 1
      }
    },
  }
}

export interface PaceLimits {
  /** Time between two slots of one key, in milliseconds. */
  everyMs: number
  /** Maximum number of attempts waiting for a slot of one key. */
  waiting: number
}

type Waiting = (granted: boolean) => void

interface Pace {
  /** Resolves to true at a slot of this key, or to false when too many wait. */
  slot(key: string): Promise<boolean>
}

/**
 * Hands out slots at a fixed rate. The next attempt, and the one evicted from a full queue, are drawn at random. So
 * repeated attempts succeed, however many others use the same key.
 */
export function createPace(
  { everyMs, waiting: mostWaiting }: PaceLimits,
  random: () => number = Math.random,
): Pace {
  const queues = new Map<string, { waiting: Waiting[]; timer: NodeJS.Timeout }>()

  function resolveRandom(waiting: Waiting[], granted: boolean): void {
    const [one] = waiting.splice(Math.floor(random() * waiting.length), 1)
    one?.(granted)
  }

  // Only waiting attempts keep the process alive.
  const startTimer = (key: string) => setTimeout(grantNext, everyMs, key).unref()

  function grantNext(key: string): void {
    const queue = queues.get(key)
    if (queue === undefined) return
    if (queue.waiting.length === 0) {
      queues.delete(key)
      return
    }
    resolveRandom(queue.waiting, true)
    queue.timer = startTimer(key)
    if (queue.waiting.length > 0) queue.timer.ref()
  }

  return {
    async slot(key) {
      const queue = queues.get(key)
      if (queue === undefined) {
        if (queues.size >= MAX_KEYS) return false
        queues.set(key, { waiting: [], timer: startTimer(key) })
        return true
      }
      return new Promise((resolve) => {
        queue.waiting.push(resolve)
        if (queue.waiting.length > mostWaiting) resolveRandom(queue.waiting, false)
        if (queue.waiting.length > 0) queue.timer.ref()
      })
    },
  }
}

/**
 * Limits checks to a part of a core: one at a time, fairly among keys, with a pause after each failed one, for which
 * its caller does not wait. `later` calls a function after some milliseconds.
 * @throws SlotsFull when the queue is full, and errors of the check
 */
export function createThrottledChecks(
  limits: Pick<SemaphoreLimits, 'name' | 'waiting' | 'waitingShare'>,
  now: () => number = () => performance.now(),
  later: (next: () => void, ms: number) => void = setTimeout,
): (key: string, check: () => Promise<boolean>) => Promise<boolean> {
  const slots = createSemaphore({ ...limits, size: 1 })
  return async (key, check) => {
    const release = await slots.take(key)
    const began = now()
    let isGood = false
    try {
      isGood = await check()
      return isGood
    } finally {
      if (isGood) release()
      else later(release, pauseAfter(now() - began))
    }
  }
}
