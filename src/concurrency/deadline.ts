/** Deadlines of any length. A timer of Node for more than 24 days ends at once. */

/** The longest time of a timer of Node, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1

/**
 * Calls `late` once when no milliseconds are left. `left` is asked again when its time is over, so it may have grown.
 * Returns what ends the wait.
 */
export function deadline(left: () => number, late: () => void, longest = LONGEST_TIMER): () => void {
  const wait = () => setTimeout(check, Math.min(Math.max(0, left()), longest))
  function check(): void {
    if (left() > 0) timer = wait()
    else late()
  }
  let timer = wait()
  return () => clearTimeout(timer)
}

/** The same for milliseconds from now. */
export function deadlineAfter(ms: number, late: () => void): () => void {
  const end = performance.now() + ms
  return deadline(() => end - performance.now(), late)
}
