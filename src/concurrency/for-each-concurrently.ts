/** Number of files read or written at the same time. Small, because the running server needs the disk too. */
const CONCURRENT_FILES = 4

/**
 * Calls `work` for each item in order, at most `limit` at a time. After the first failure it starts no further item, waits
 * for the running ones and rejects with that failure.
 */
export async function forEachConcurrently<T>(
  items: Iterable<T> | AsyncIterable<T>,
  work: (item: T) => Promise<void>,
  limit = CONCURRENT_FILES,
): Promise<void> {
  const running = new Set<Promise<void>>()
  let failure: { error: unknown } | undefined
  try {
    for await (const item of items) {
      const one = work(item)
        .catch((error: unknown) => {
          failure ??= { error }
        })
        .finally(() => running.delete(one))
      running.add(one)
      if (running.size >= limit) await Promise.race(running)
      if (failure !== undefined) break
    }
  } finally {
    await Promise.all(running)
  }
  if (failure !== undefined) throw failure.error
}
