/** Who has used how much of something lately: what is used counts half after each half-life. Bounded. */
import { LRUCache } from 'lru-cache'

export interface RecentUse {
  /** Counts an amount that a key has used now. */
  add(key: string, amount: number): void
  /** What a key has used lately; 0 for one that has used nothing. */
  of(key: string): number
  /** Of these keys the one that has used least lately, the first one of several; undefined of none. */
  least(keys: Iterable<string>): string | undefined
}

const MAX_KEYS = 10_000

export function createRecentUse(halfLifeMs: number, now: () => number): RecentUse {
  // By key the logarithm of what it would have used if all of it had been used at time 0. So it does not change while
  // time goes by, and keys can be compared as they are.
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
