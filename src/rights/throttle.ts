/** Limits how often something may fail within a time window. Its memory is bounded. */
import { LRUCache } from 'lru-cache'

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
  /** When counting starts again, in milliseconds since 1970. */
  until: number
}

const MAX_KEYS = 10_000

export function createThrottle(
  { failures, windowMs }: ThrottleLimits,
  now: () => number = Date.now,
): Throttle {
  const counts = new LRUCache<string, Count>({ max: MAX_KEYS })

  function current(key: string): Count | undefined {
    const count = counts.get(key)
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
      counts.set(key, count)
      return () => {
        count.failures -= 1
      }
    },
  }
}
