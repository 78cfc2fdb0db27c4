/** Caches answers that follow from object ids alone and so never change. */
import { LRUCache } from 'lru-cache'
import { boundedKey } from '../../concurrency/bounded-key.ts'
import { coalesce } from '../../concurrency/coalesce.ts'

/**
 * Makes a cache of at most `maxSize` units, in which an answer takes `sizeOf(answer)` units. Returns a function
 * that gives the cached answer, or calls `ask`: once for all callers with the same question, as in `coalesce`. Errors are
 * not cached.
 *
 * A question must begin with the repository's directory. An answer from one repository must not become visible in
 * another.
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
    // Paths of clients are in it.
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
