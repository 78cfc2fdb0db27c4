/** Caches results that depend only on object ids and so never change. */
import { LRUCache } from 'lru-cache'
import { boundedKey } from '../../concurrency/bounded-key.ts'
import { coalesce } from '../../concurrency/coalesce.ts'

/**
 * Creates a cache of at most `maxSize` units, in which a result takes `sizeOf(answer)` units. Returns a function that
 * returns the cached result, or calls `ask`, once for all callers with the same question (see `coalesce`). Errors are not
 * cached.
 * A question must begin with the repository's directory: a result from one repository must not become visible in another.
 */
export function createAnswerCache<T extends object>(maxSize: number, sizeOf: (answer: T) => number) {
  const answers = new LRUCache<string, T>({
    maxSize,
    sizeCalculation: (answer) => Math.max(1, sizeOf(answer)),
  })
  const asking = coalesce<T>()

  return async (
    question: string,
    ask: (unwanted: AbortSignal) => Promise<T>,
    gone?: AbortSignal,
  ): Promise<T> => {
    gone?.throwIfAborted()
    // It may contain a client's path of any length.
    const key = boundedKey(question)
    const known = answers.get(key)
    if (known !== undefined) return known
    const askAndKeep = async (unwanted: AbortSignal) => {
      const answer = await ask(unwanted)
      answers.set(key, answer)
      return answer
    }
    return await asking(key, askAndKeep, gone)
  }
}
