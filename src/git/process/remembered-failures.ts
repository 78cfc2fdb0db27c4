/** Caches the failures of queries that exceed the limits, so that a repetition is cheap. */
import { LRUCache } from 'lru-cache'
import { boundedKey } from '../../concurrency/bounded-key.ts'
import { GitOutputTooLarge, GitTooSlow } from './errors.ts'

const MAX_FAILURES = 10_000
/** Time to live of a cached failure, in milliseconds: the host may have been busy. */
const TTL_MS = 60 * 60_000

const failures = new LRUCache<string, Error>({ max: MAX_FAILURES, ttl: TTL_MS })

/**
 * Runs `work`. When it exceeds the time or memory limit, its error is cached for the key, and `work` is not called for an
 * hour. Keys must have few variants: otherwise a client could repeat the work under another key.
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

/** Caches the error of work that failed later, if it is a time or memory limit. */
export function rememberFailure(key: string, error: unknown): void {
  if (error instanceof GitTooSlow || error instanceof GitOutputTooLarge) failures.set(boundedKey(key), error)
}
