/** Turns: one thing at a time for each key; and a loop that does a few things at the same time. */

export interface MutexLimits {
  /** How long work may wait for its turn, in milliseconds. After that it is not started. */
  timeoutMs: number
  /** The error with which late work rejects. */
  timeoutError(key: string): Error
}

/**
 * Those who wait in a line behind each other. When work fails with an error that `isShared` accepts, all who wait then
 * fail with it, and their work is not started: each would only wait as long again for the same error. Without this, a
 * line is as long as all that comes while a store stands still, and its last one waits for that many timeouts.
 *
 * To be called when work gets in line; what it returns, when the work has its turn.
 */
export function sharedFailures(isShared: (error: unknown) => boolean) {
  let came = 0
  let failed: { upTo: number; error: unknown } | undefined
  return <T>(work: () => Promise<T>): (() => Promise<T>) => {
    came += 1
    const place = came
    return async () => {
      if (failed !== undefined && place <= failed.upTo) throw failed.error
      try {
        return await work()
      } catch (error) {
        if (isShared(error)) failed = { upTo: came, error }
        throw error
      }
    }
  }
}

/**
 * Runs `work` when all earlier work with the same key has ended: one at a time per key, in order, within this
 * process. Resolves or rejects as `work` does. A failure of earlier work has no effect.
 */
export type RunExclusive = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** Turns that say whether anybody has one, or waits for it. */
export type KeyedMutex = RunExclusive & { isLocked(key: string): boolean }

/**
 * Makes turns. Keys of different turns are independent, even when they are equal. `isShared`: failures that end the
 * waiting of others, see `sharedFailures`; none without it.
 */
export function createKeyedMutex(
  limits?: MutexLimits,
  isShared: (error: unknown) => boolean = () => false,
): KeyedMutex {
  const lines = new Map<string, { last: Promise<unknown>; place: ReturnType<typeof sharedFailures> }>()

  async function inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const deadline = limits === undefined ? Number.POSITIVE_INFINITY : performance.now() + limits.timeoutMs
    const line = lines.get(key)
    const place = line?.place ?? sharedFailures(isShared)
    const placed = place(work)
    const mine =
      line === undefined
        ? placed()
        : line.last.then(() => {
            if (limits !== undefined && performance.now() > deadline) throw limits.timeoutError(key)
            return placed()
          })
    const settled = mine.catch(() => {})
    lines.set(key, { last: settled, place })
    try {
      return await mine
    } finally {
      if (lines.get(key)?.last === settled) lines.delete(key)
    }
  }
  return Object.assign(inTurn, { isLocked: (key: string) => lines.has(key) })
}
