import { timeSlices } from '../../concurrency/event-loop.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'

/**
 * Does the work for each item, also after it fails for some: the items are independent. `concurrency`: the number of items at
 * a time; their appends share writes. Long work yields the event loop. When the log does not answer, it stops: each further
 * item would only wait for the log, too.
 * @throws the first failure, after all work is done; StoreUnavailable as soon as it occurs
 */
export async function forEachSettled<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
  concurrency = 1,
): Promise<void> {
  const failures: unknown[] = []
  const slices = timeSlices('each')
  const remaining = items[Symbol.iterator]()
  async function worker(): Promise<void> {
    for (let next = remaining.next(); !next.done; next = remaining.next()) {
      try {
        await work(next.value)
      } catch (error) {
        failures.push(error)
      }
      if (failures.some((error) => error instanceof StoreUnavailable)) return
      if (slices.isOver()) await slices.next()
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  const unavailable = failures.find((error) => error instanceof StoreUnavailable)
  if (failures.length > 0) throw unavailable ?? failures[0]
}
