/** Reports texts whose key is missing: all of them, when the secrets were lost, and each time that they are read. */
import type { RecordedEvent } from '../store/event-store.ts'

const PAUSE_MS = 60_000

/**
 * Returns a function that logs the place of a text: of the first one, and then of one in a minute with the number of
 * those in between. `now`: milliseconds.
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
      'the key of a text is missing, and nobody has erased it; `mergelog verify` names 100 such texts',
    )
    loggedAt = now()
    unnamed = 0
  }
}
