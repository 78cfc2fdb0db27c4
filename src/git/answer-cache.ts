/** Caches answers that follow from object ids alone and so never change. */
import { LRUCache } from 'lru-cache'

/**
 * Makes a cache of at most `maxSize` units, in which an answer takes `sizeOf(answer)` units. Returns a function
 * that gives the cached answer, or calls `ask`: once for all callers that wait for the same key. Errors are not
 * cached.
 *
 * A key must begin with the repository's directory. An answer from one repository must not become visible in
 * another.
 */
export function createAnswerCache<T extends object>(maxSize: number, sizeOf: (answer: T) => number) {
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
