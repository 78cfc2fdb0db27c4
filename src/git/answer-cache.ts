/** Caches answers that follow from object ids alone and so never change. */
import { LRUCache } from 'lru-cache'
import { shortKey } from '../short-key.ts'
import { unlessGone } from '../unless-gone.ts'

/** Work that several callers wait for. */
interface Shared<T> {
  answer: Promise<T>
  callers: number
  /** Ends the work when nobody waits any more. */
  unwanted: AbortController
}

/**
 * Makes a cache of at most `maxSize` units, in which an answer takes `sizeOf(answer)` units. Returns a function
 * that gives the cached answer, or calls `ask`: once for all callers with the same question. Errors are not
 * cached.
 *
 * A caller whose signal is aborted gets the signal's reason. When no caller waits any more, the signal that `ask` got
 * is aborted.
 *
 * A question must begin with the repository's directory. An answer from one repository must not become visible in
 * another.
 */
export function createAnswerCache<T extends object>(maxSize: number, sizeOf: (answer: T) => number) {
  const answers = new LRUCache<string, T>({
    maxSize,
    sizeCalculation: (answer) => Math.max(1, sizeOf(answer)),
  })
  const running = new Map<string, Shared<T>>()

  function start(key: string, ask: (signal: AbortSignal) => Promise<T>): Shared<T> {
    const unwanted = new AbortController()
    const answer = ask(unwanted.signal).then((value) => {
      answers.set(key, value)
      return value
    })
    const shared = { answer, callers: 0, unwanted }
    running.set(key, shared)
    const done = () => {
      if (running.get(key) === shared) running.delete(key)
    }
    answer.then(done, done)
    return shared
  }

  return async (
    question: string,
    ask: (signal: AbortSignal) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> => {
    signal?.throwIfAborted()
    // Paths of clients are in it.
    const key = shortKey(question)
    const known = answers.get(key)
    if (known !== undefined) return known
    const shared = running.get(key) ?? start(key, ask)
    shared.callers += 1
    return await unlessGone(shared.answer, signal, () => {
      shared.callers -= 1
      if (shared.callers > 0) return
      running.delete(key)
      shared.unwanted.abort(signal?.reason)
    })
  }
}
