/** How many times as long as the work a rest after it is. So who must rest works a fifth of the time at most. */
const RESTS = 4
/** A busy machine makes work long; the rest after it is not longer than this, in milliseconds. */
const MOST_REST_MS = 1000

/** How long a client rests after work that others had to wait for. In milliseconds, as the work. */
export const restAfter = (workedMs: number): number => Math.min(MOST_REST_MS, RESTS * workedMs)
