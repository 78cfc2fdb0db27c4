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
  const answers = new LRUCache<string, T, () => Promise<T>>({
    maxSize,
    sizeCalculation: (answer) => Math.max(1, sizeOf(answer)),
    fetchMethod: (_key, _stale, { context: ask }) => ask(),
    // A caller gets its answer also when the cache has no room for it any more.
    ignoreFetchAbort: true,
  })
  return async (key: string, ask: () => Promise<T>) => await answers.forceFetch(key, { context: ask })
}
