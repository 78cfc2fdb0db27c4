import { timeSlices } from '../../concurrency/event-loop.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'

/**
 * Does the work for each thing, also when it fails for some of them: they have nothing to do with each other. `atOnce`: for
 * so many at one time, whose appends then share their writes; without it, for one after the other. Others use the event loop
 * in between. Only when the log does not answer, it ends at once: each of the rest would wait for the log, too.
 *
 * @throws the first failure, after all work is done; StoreUnavailable at once
 */
export async function eachOne<T>(
  things: Iterable<T>,
  work: (thing: T) => Promise<void>,
  atOnce = 1,
): Promise<void> {
  const failures: unknown[] = []
  const slices = timeSlices('each')
  const rest = things[Symbol.iterator]()
  async function worker(): Promise<void> {
    for (let next = rest.next(); !next.done; next = rest.next()) {
      try {
        await work(next.value)
      } catch (error) {
        failures.push(error)
      }
      if (failures.some((error) => error instanceof StoreUnavailable)) return
      if (slices.isOver()) await slices.next()
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  const unavailable = failures.find((error) => error instanceof StoreUnavailable)
  if (failures.length > 0) throw unavailable ?? failures[0]
}
