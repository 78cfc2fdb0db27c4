/**
 * Limits how long a process waits for work that a worker can do as well: some seconds, and not at all for accounts with
 * much recent use.
 */
import { createRecentUse } from '../concurrency/recent-use.ts'

/** Maximum wait for the work of one event, in milliseconds. */
const AT_ONCE_MS = 10_000
/** Recent use after which an account's work is not waited for, in milliseconds. */
const MAX_USE_MS = 20_000
/** Half-life of the recent use, in milliseconds. */
const HALF_LIFE_MS = 10 * 60_000

export function createWaitBudget(atOnceMs = AT_ONCE_MS) {
  const used = createRecentUse(HALF_LIFE_MS, () => performance.now())
  return {
    /** Returns how long the process waits for an account, in milliseconds; 0 for not at all. */
    with: (account: string): number => (used.of(account) > MAX_USE_MS ? 0 : atOnceMs),
    /** Waits for the work and adds its duration to the account's use. */
    async during<T>(account: string, work: () => Promise<T>): Promise<T> {
      const began = performance.now()
      try {
        return await work()
      } finally {
        used.add(account, performance.now() - began)
      }
    },
  }
}
