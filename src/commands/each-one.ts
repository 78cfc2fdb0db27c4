import { StoreUnavailable } from '../events/event-store.ts'
import { piecesOf } from '../pieces.ts'

/**
 * Does the work for each thing, one after the other, also when it fails for some of them: they have nothing to do with
 * each other. Others use the event loop in between. Only when the log does not answer, it ends at once: each of the rest
 * would wait for the log, too.
 *
 * @throws the first failure, after all work is done; StoreUnavailable at once
 */
export async function eachOne<T>(things: Iterable<T>, work: (thing: T) => Promise<void>): Promise<void> {
  const failures: unknown[] = []
  const pieces = piecesOf('each')
  for (const thing of things) {
    try {
      await work(thing)
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      failures.push(error)
    }
    if (pieces.isOver()) await pieces.next()
  }
  if (failures.length > 0) throw failures[0]
}
