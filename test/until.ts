/** Waits for a condition that another part of the server makes true. */
import { setTimeout as delay } from 'node:timers/promises'

const TIMEOUT_MS = 60_000

/** Resolves when `isSo` resolves to true. Rejects, naming `what`, after a minute. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + TIMEOUT_MS
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`)
    await delay(10)
  }
}
