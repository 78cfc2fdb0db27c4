/** Recent use of a resource per key, with exponential decay. The number of keys is bounded. */
import { LRUCache } from 'lru-cache'

export interface RecentUse {
  /** Adds an amount that a key has used now. */
  add(key: string, amount: number): void
  /** The recent use of a key; 0 for an unknown key. */
  of(key: string): number
  /** The key with the least recent use, the first one of equals; undefined for an empty list. */
  least(keys: Iterable<string>): string | undefined
}

const MAX_KEYS = 10_000

export function createRecentUse(halfLifeMs: number, now: () => number): RecentUse {
  // The logarithm of the use, as if all of it had been at time 0. It is constant over time, so keys can be compared
  // directly.
  const scores = new LRUCache<string, number>({ max: MAX_KEYS })
  const time = () => now() / halfLifeMs
  const NOTHING = Number.NEGATIVE_INFINITY
  const of = (key: string) => 2 ** ((scores.get(key) ?? NOTHING) - time())

  return {
    of,
    add(key, amount) {
      if (amount > 0) scores.set(key, Math.log2(of(key) + amount) + time())
    },
    least(keys) {
      let found: { key: string; score: number } | undefined
      for (const key of keys) {
        const score = scores.peek(key) ?? NOTHING
        if (found === undefined || score < found.score) found = { key, score }
      }
      return found?.key
    },
  }
}
