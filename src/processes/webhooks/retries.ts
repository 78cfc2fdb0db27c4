/** Retry and give-up times of deliveries. Pure. */

/** Maximum age of an event whose delivery is retried after a failure, in milliseconds. */
export const GIVEN_UP_AFTER_MS = 24 * 3_600_000
const FIRST_MS = 1000
const LONGEST_MS = 30 * 60_000
/** Jitter of a pause, as a fraction of it. */
const SPREAD = 0.2

/**
 * Returns the pause after this number of attempts, in milliseconds, doubled each time. `random` (0 to 1) adds jitter.
 */
export function waitAfter(attempts: number, random: number): number {
  const wait = Math.min(FIRST_MS * 2 ** Math.min(attempts - 1, 30), LONGEST_MS)
  return Math.round(wait * (1 - SPREAD + 2 * SPREAD * random))
}

/**
 * Returns when a pause until `notBefore` ends. A pause beyond the longest one means that the clock was set back: it
 * ends now.
 */
export function dueAt(notBefore: number, now: number): number {
  return notBefore > now + LONGEST_MS * (1 + SPREAD) ? now : notBefore
}

/** Whether a retry may get another response. A rejection (400, 404, 410 …) would repeat, and block later deliveries. */
export function mayChange(statusCode: number): boolean {
  return statusCode >= 500 || [408, 425, 429].includes(statusCode)
}

export const isDelivered = (statusCode: number) => statusCode >= 200 && statusCode < 300
