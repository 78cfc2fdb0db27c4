/** Remembers which questions about commits are too large, so that asking again costs nothing. */
import { LRUCache } from 'lru-cache'
import { boundedKey } from '../../concurrency/bounded-key.ts'
import { GitOutputTooLarge, GitTooSlow } from './errors.ts'

const MAX_FAILURES = 10_000
/** After this time a question is tried again: the machine may have been busy. In milliseconds. */
const FOR_MS = 60 * 60_000

const failures = new LRUCache<string, Error>({ max: MAX_FAILURES, ttl: FOR_MS })

/**
 * Does `work`. When it takes too long or too much memory, its error is remembered for the key, and `work` is not called
 * for an hour. A key must have only parts of which there are few: a client must not find another one for the same work.
 */
export async function rememberingFailure<T>(key: string, work: () => Promise<T>): Promise<T> {
  const known = failures.get(boundedKey(key))
  if (known !== undefined) throw known
  try {
    return await work()
  } catch (error) {
    rememberFailure(key, error)
    throw error
  }
}

/** Remembers the error of work that failed later, when it is one of those that are remembered. */
export function rememberFailure(key: string, error: unknown): void {
  if (error instanceof GitTooSlow || error instanceof GitOutputTooLarge) failures.set(boundedKey(key), error)
}
