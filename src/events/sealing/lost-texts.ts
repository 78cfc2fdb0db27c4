/** Reports texts whose key is missing, at each read: all texts after a loss of the secrets. */
import type { RecordedEvent } from '../store/event-store.ts'

const PAUSE_MS = 60_000

/**
 * Returns a rate-limited logger: it logs the first text, and then one text per minute with the number of those in between.
 * `now` returns milliseconds.
 */
export function lostTextReporter(
  log: { error(facts: object, message: string): void },
  now: () => number = () => performance.now(),
): (event: Pick<RecordedEvent, 'stream' | 'revision'>) => void {
  let loggedAt = Number.NEGATIVE_INFINITY
  let unnamed = 0
  return ({ stream, revision }) => {
    if (now() - loggedAt < PAUSE_MS) {
      unnamed += 1
      return
    }
    log.error(
      { stream, revision, unnamed },
      'the key of a text is missing without an erasure; `mergelog verify` lists 100 such texts',
    )
    loggedAt = now()
    unnamed = 0
  }
}
