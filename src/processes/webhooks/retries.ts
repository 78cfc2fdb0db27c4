/** When a delivery that failed is tried again, and when it is given up. Pure. */

/** How old an event may be whose delivery is tried again after a failure, in milliseconds. */
export const GIVEN_UP_AFTER_MS = 24 * 3_600_000
const FIRST_MS = 1000
const LONGEST_MS = 30 * 60_000
/** How much shorter or longer a pause may be, as a part of it. */
const SPREAD = 0.2

/** How long to wait after so many attempts: twice as long each time. `random` (0 to 1) keeps many from coming at once. */
export function waitAfter(attempts: number, random: number): number {
  const wait = Math.min(FIRST_MS * 2 ** Math.min(attempts - 1, 30), LONGEST_MS)
  return Math.round(wait * (1 - SPREAD + 2 * SPREAD * random))
}

/**
 * When something is next that waits until `notBefore`. No pause ends later than the longest one: if it seems to, the clock
 * was set back since, perhaps by years. Then it is next now.
 */
export function dueAt(notBefore: number, now: number): number {
  return notBefore > now + LONGEST_MS * (1 + SPREAD) ? now : notBefore
}

/**
 * Whether an answer may be another one later. What a receiver refuses (400, 404, 410 …) it would refuse again, and all
 * that comes after it would wait.
 */
export function mayChange(statusCode: number): boolean {
  return statusCode >= 500 || [408, 425, 429].includes(statusCode)
}

export const isDelivered = (statusCode: number) => statusCode >= 200 && statusCode < 300
