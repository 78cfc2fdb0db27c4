/** Clocks for comparison with file times, corrected for changes of the system clock. */

/**
 * Records the current time. The returned function returns it in milliseconds since 1970, corrected if the clock was set
 * back since: files written from now on are never older.
 */
export function recordNow(
  now: () => number = Date.now,
  elapsed: () => number = () => performance.now(),
): () => number {
  const at = now()
  const began = elapsed()
  return () => Math.min(at, now() - (elapsed() - began))
}

/**
 * Creates a clock that ignores forward changes of the system clock: a file written just now never looks old. Follows
 * changes back.
 */
export function steadyClock(
  now: () => number = () => Date.now(),
  elapsed: () => number = () => performance.now(),
): () => number {
  const began = elapsed()
  const begun = recordNow(now, elapsed)
  return () => begun() + elapsed() - began
}
