/** When a delivery that failed is tried again, and when it is given up. Pure. */

/** How old an event may be that is still sent, in milliseconds. */
export const GIVEN_UP_AFTER_MS = 24 * 3_600_000
const FIRST_MS = 1000
const LONGEST_MS = 30 * 60_000

/** How long to wait after so many attempts: twice as long each time. `random` (0 to 1) keeps many from coming at once. */
export function waitAfter(attempts: number, random: number): number {
  const wait = Math.min(FIRST_MS * 2 ** Math.min(attempts - 1, 30), LONGEST_MS)
  return Math.round(wait * (0.8 + 0.4 * random))
}

/**
 * Whether an answer may be another one later. What a receiver refuses (400, 404, 410 …) it would refuse again, and all
 * that comes after it would wait.
 */
export function mayChange(statusCode: number): boolean {
  return statusCode >= 500 || [408, 425, 429].includes(statusCode)
}

export const isDelivered = (statusCode: number) => statusCode >= 200 && statusCode < 300
