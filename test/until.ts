/** Waiting for what another part of the server does in its own time. */
import { setTimeout as delay } from 'node:timers/promises'

const PATIENCE_MS = 60_000

/** Asks again and again until the answer is yes; rejects, naming `what`, when it does not come to that. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + PATIENCE_MS
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`)
    await delay(10)
  }
}
