/** Caches results that depend only on object ids and so never change. */
import { LRUCache } from 'lru-cache'
import { boundedKey } from '../../concurrency/bounded-key.ts'
import { coalesce } from '../../concurrency/coalesce.ts'

/**
 * Creates a cache of at most `maxSize` units, in which a result takes `sizeOf(answer)` units. Returns a function that
 * returns the cached result, or calls `compute`, once for all callers with the same query (see `coalesce`). Errors are
 * not cached. A query must begin with the repository's directory: a result from one repository must not become visible
 * in another.
 */
export function createAnswerCache<T extends object>(maxSize: number, sizeOf: (answer: T) => number) {
  const answers = new LRUCache<string, T>({
    maxSize,
    sizeCalculation: (answer) => Math.max(1, sizeOf(answer)),
  })
  const computing = coalesce<T>()

  return async (
    query: string,
    compute: (unwanted: AbortSignal) => Promise<T>,
    gone?: AbortSignal,
  ): Promise<T> => {
    gone?.throwIfAborted()
    // The query may contain a client's path of any length.
    const key = boundedKey(query)
    const known = answers.get(key)
    if (known !== undefined) return known
    const computeAndCache = async (unwanted: AbortSignal) => {
      const answer = await compute(unwanted)
      answers.set(key, answer)
      return answer
    }
    return await computing(key, computeAndCache, gone)
  }
}
