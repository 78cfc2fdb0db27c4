/** Deadlines of any length. Node would fire a timer of more than 24 days immediately. */

/** Longest delay of a Node timer, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1

/**
 * Calls `late` once, when `left` returns 0 or less. Calls `left` after each delay, so the remaining time may grow.
 * Returns a function that cancels the deadline.
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

/** Calls `late` after `ms` milliseconds. Returns a function that cancels the deadline. */
export function deadlineAfter(ms: number, late: () => void): () => void {
  const end = performance.now() + ms
  return deadline(() => end - performance.now(), late)
}
