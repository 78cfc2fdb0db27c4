/** Settings of V8's garbage collector. */
import { availableParallelism } from 'node:os'
import { setFlagsFromString } from 'node:v8'

/** Number of processors up to which the collector's helper threads often wait for one. */
const FEW_PROCESSORS = 2
/** Growth of a heap until its next collection, in percent of the used memory. */
const GROWTH = 50

/** Configures the garbage collection of all threads. Call it before large allocations. */
export function setUpGarbageCollection(): void {
  // By default a heap grows to four times its size before the next collection. Catching up with a log then took 120 MB
  // more, and no less time.
  setFlagsFromString(`--heap-growing-percent=${GROWTH}`)
  // With few processors, each thread collects its young objects alone. By default it waits for helper threads. When git
  // keeps the processors busy, the helpers wait for one, and the event loop with them: up to 28 ms in `npm run hostile
  // -- --together`.
  if (availableParallelism() <= FEW_PROCESSORS) setFlagsFromString('--no-parallel-scavenge')
}
