/** Answers that follow from ids alone and never change: asked once, kept as long as there is room. */
import { LRUCache } from 'lru-cache'

/**
 * A memory of at most `maxSize` units, where an answer takes `sizeOf` it. What it gives back answers from
 * memory or asks, once for all who wait; failures are forgotten. Keys begin with the repository's directory:
 * that something is known from one repository must not make it visible in another.
 */
export function remembering<T extends object>(maxSize: number, sizeOf: (answer: T) => number) {
  const known = new LRUCache<string, T>({ maxSize, sizeCalculation: (answer) => Math.max(1, sizeOf(answer)) })
  const asked = new Map<string, Promise<T>>()
  return async (key: string, ask: () => Promise<T>): Promise<T> => {
    const answer = known.get(key) ?? asked.get(key)
    if (answer !== undefined) return await answer
    const asking = ask()
    asked.set(key, asking)
    try {
      const fresh = await asking
      known.set(key, fresh)
      return fresh
    } finally {
      asked.delete(key)
    }
  }
}
