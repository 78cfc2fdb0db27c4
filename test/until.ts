import { setTimeout as delay } from 'node:timers/promises'

/** Waits for a result of another part of the server. */

const TIMEOUT_MS = 60_000

/** Calls `isTrue` repeatedly until it returns true. @throws Error that names `what`, after 60 s or `timeoutMs` */
export async function until(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  timeoutMs = TIMEOUT_MS,
): Promise<void> {
  const end = Date.now() + timeoutMs
  while (!(await isTrue())) {
    if (Date.now() > end) throw new Error(`timeout: waited until ${what}`)
    await delay(10)
  }
}
