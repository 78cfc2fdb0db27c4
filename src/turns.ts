/** Bounds how many things run at once; what does not fit waits in order. */
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

const lastTurn = new Map<string, Promise<unknown>>()

/**
 * Runs `work` when all earlier work with the same key has ended: one at a time per key, in order,
 * within this process. Resolves or rejects as `work` does.
 */
export async function inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
  const before = lastTurn.get(key)
  const mine = (async () => {
    // Whether the one before failed is its own caller's matter.
    if (before !== undefined) await before.catch(() => undefined)
    return await work()
  })()
  lastTurn.set(key, mine)
  try {
    return await mine
  } finally {
    if (lastTurn.get(key) === mine) lastTurn.delete(key)
  }
}
