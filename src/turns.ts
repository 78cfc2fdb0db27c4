/** Waiting for one's turn: so many at once (slots), or one at a time for each key (turns). */

/** Limits how many things run at once; the others wait in order. */
export interface Slots {
  /**
   * Waits for a free slot and takes it. The caller must call the returned function once it is done;
   * calling it again does nothing. Rejects with the signal's reason when aborted while waiting.
   */
  take(signal?: AbortSignal): Promise<() => void>
}

/** Makes `size` slots, all free. */
export function createSlots(size: number): Slots {
  let free = size
  // A Set keeps the order of arrival, and one that gave up leaves it in constant time.
  const waiting = new Set<() => void>()

  function give(): void {
    for (const next of waiting) {
      waiting.delete(next)
      next()
      return
    }
    free += 1
  }

  function once(): () => void {
    let given = false
    return () => {
      if (given) return
      given = true
      give()
    }
  }

  return {
    async take(signal) {
      signal?.throwIfAborted()
      if (free > 0) {
        free -= 1
        return once()
      }
      await new Promise<void>((resolve, reject) => {
        const gaveUp = () => {
          waiting.delete(mine)
          reject(signal?.reason)
        }
        const mine = () => {
          signal?.removeEventListener('abort', gaveUp)
          resolve()
        }
        waiting.add(mine)
        signal?.addEventListener('abort', gaveUp, { once: true })
      })
      return once()
    },
  }
}

export interface TurnLimits {
  /** How long work may wait for its turn, in milliseconds; it is not begun afterwards. */
  patienceMs: number
  /** What its caller gets then. */
  tooLate(key: string): Error
}

/**
 * Runs `work` when all earlier work with the same key has ended: one at a time per key, in order, within this
 * process. Resolves or rejects as `work` does; whether earlier work failed does not matter.
 */
export type InTurn = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** Turns of their own: keys meet only keys of the same turns. */
export function createTurns(limits?: TurnLimits): InTurn {
  const last = new Map<string, Promise<unknown>>()

  return async (key, work) => {
    const latest = limits === undefined ? Number.POSITIVE_INFINITY : performance.now() + limits.patienceMs
    const before = last.get(key)
    const mine =
      before === undefined
        ? work()
        : before.then(() => {
            if (limits !== undefined && performance.now() > latest) throw limits.tooLate(key)
            return work()
          })
    const settled = mine.catch(() => {})
    last.set(key, settled)
    try {
      return await mine
    } finally {
      if (last.get(key) === settled) last.delete(key)
    }
  }
}

/** The turns of repositories, streams and merges; the key says of what. */
export const inTurn = createTurns()
