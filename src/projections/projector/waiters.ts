/** Requests that wait until the read models reach a position of the log. */
import type { Position } from '../../events/store/event-store.ts'

interface Waiter {
  position: Position
  resolve: (passed: boolean) => void
}

export function createWaiters() {
  const waiting = new Set<Waiter>()
  let lastAt = Number.NEGATIVE_INFINITY

  return {
    isEmpty: () => waiting.size === 0,
    /** Returns the waiting time of the latest waiter, in milliseconds. */
    youngestAge: () => performance.now() - lastAt,
    /** Resolves to true when `answer` gets the position or a later one, or to false after `timeoutMs`. */
    wait(position: Position, timeoutMs: number): Promise<boolean> {
      lastAt = performance.now()
      return new Promise((resolve) => {
        const timer = setTimeout(() => waiter.resolve(false), timeoutMs)
        const waiter: Waiter = {
          position,
          resolve: (answer) => {
            clearTimeout(timer)
            waiting.delete(waiter)
            resolve(answer)
          },
        }
        waiting.add(waiter)
      })
    },
    /** Resolves the waiters for this position or an earlier one. */
    answer(position: Position): void {
      for (const waiter of waiting) if (waiter.position <= position) waiter.resolve(true)
    },
    /** Resolves all remaining waiters to false. */
    giveUp(): void {
      for (const waiter of waiting) waiter.resolve(false)
    },
  }
}
