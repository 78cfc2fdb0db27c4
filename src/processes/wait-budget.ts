/**
 * How long a process waits for work that a worker can do as well: some seconds, but not for those whose work has kept it
 * waiting for long lately.
 */
import { createRecentUse } from '../concurrency/recent-use.ts'

/** How long it waits for the work of one event, in milliseconds. */
const AT_ONCE_MS = 10_000
/** Whose work has kept it waiting for so long lately is not waited for. */
const MAX_USE_MS = 20_000
/** After this time, in milliseconds, what somebody has used counts half. */
const HALF_LIFE_MS = 10 * 60_000

export function createWaitBudget(atOnceMs = AT_ONCE_MS) {
  const used = createRecentUse(HALF_LIFE_MS, () => performance.now())
  return {
    /** For how many milliseconds the process waits for an account: 0 for none. */
    with: (account: string): number => (used.of(account) > MAX_USE_MS ? 0 : atOnceMs),
    /** Waits for the work, and counts how long that took. */
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
