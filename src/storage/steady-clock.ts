/** Moments of this process that are compared with the times of files. */

/**
 * Begins now. The returned function says when that was, in milliseconds since 1970, by the clock as it was then or as it
 * is now: whichever is earlier. So when the clock was set back meanwhile, what is written from now on is not older than
 * this moment.
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
 * A clock that is never ahead: what it shows goes on from when this was called, or is the time now, whichever is earlier.
 * So what was written just now does not look old when the clock is set forward.
 */
export function steadyClock(
  now: () => number = () => Date.now(),
  elapsed: () => number = () => performance.now(),
): () => number {
  const began = elapsed()
  const begun = recordNow(now, elapsed)
  return () => begun() + elapsed() - began
}
