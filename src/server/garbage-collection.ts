/** How V8 collects the garbage of this process. */
import { availableParallelism } from 'node:os'
import { setFlagsFromString } from 'node:v8'

/** With as many processors or fewer, a helper of the collector often waits for one. */
const FEW_PROCESSORS = 2
/** By how much a heap may grow until it is collected again, in percent of what is in use. */
const GROWTH = 50

/** Sets how V8 collects the garbage of all threads. To be called before much is allocated. */
export function setUpGarbageCollection(): void {
  // By default a heap grows up to four times before the next collection, which took 120 MB more to catch up with a log, and
  // no less time.
  setFlagsFromString(`--heap-growing-percent=${GROWTH}`)
  // On a machine of few processors, each thread collects its young objects alone. By default it shares that work with
  // helpers and waits until they are done. When git keeps the processors busy, they wait for one, and the event loop with
  // them: up to 28 ms in `npm run hostile -- --together`.
  if (availableParallelism() <= FEW_PROCESSORS) setFlagsFromString('--no-parallel-scavenge')
}
