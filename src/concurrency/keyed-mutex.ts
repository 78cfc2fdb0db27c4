/** A mutex per key. */

export interface MutexLimits {
  /** Maximum waiting time for the lock, in milliseconds. After it the work is not started. */
  timeoutMs: number
  /** Creates the error for work that waited too long. */
  timeoutError(key: string): Error
}

/**
 * Fails all queued work together: when work fails with an error that `isShared` accepts, the work queued behind it fails
 * with the same error and is not started. Otherwise, during an outage of a store, each caller in the queue would wait for
 * one more timeout.
 * Call it when the work is queued; call the function that it returns when the work has the lock.
 */
export function sharedFailures(isShared: (error: unknown) => boolean) {
  let queued = 0
  let failed: { upTo: number; error: unknown } | undefined
  return <T>(work: () => Promise<T>): (() => Promise<T>) => {
    queued += 1
    const number = queued
    return async () => {
      if (failed !== undefined && number <= failed.upTo) throw failed.error
      try {
        return await work()
      } catch (error) {
        if (isShared(error)) failed = { upTo: queued, error }
        throw error
      }
    }
  }
}

/**
 * Runs `work` when all earlier work with the same key has ended: one at a time per key, in order, within this process.
 * Resolves or rejects as `work` does. A failure of earlier work has no effect.
 */
export type RunExclusive = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** A mutex per key that reports whether a key is locked or waited for. */
export type KeyedMutex = RunExclusive & { isLocked(key: string): boolean }

/**
 * Creates a mutex. Equal keys of different mutexes are independent. `isShared` selects the failures that also fail the
 * queued work (see `sharedFailures`); the default selects none.
 */
export function createKeyedMutex(
  limits?: MutexLimits,
  isShared: (error: unknown) => boolean = () => false,
): KeyedMutex {
  const queues = new Map<string, { last: Promise<unknown>; guard: ReturnType<typeof sharedFailures> }>()

  async function runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const deadline = limits === undefined ? Number.POSITIVE_INFINITY : performance.now() + limits.timeoutMs
    const queue = queues.get(key)
    const guard = queue?.guard ?? sharedFailures(isShared)
    const guarded = guard(work)
    const mine =
      queue === undefined
        ? guarded()
        : queue.last.then(() => {
            if (limits !== undefined && performance.now() > deadline) throw limits.timeoutError(key)
            return guarded()
          })
    const settled = mine.catch(() => {})
    queues.set(key, { last: settled, guard })
    try {
      return await mine
    } finally {
      if (queues.get(key)?.last === settled) queues.delete(key)
    }
  }
  return Object.assign(runExclusive, { isLocked: (key: string) => queues.has(key) })
}
