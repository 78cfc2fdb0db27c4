/** How V8 collects the garbage of this process. */
import { availableParallelism } from 'node:os'
import { setFlagsFromString } from 'node:v8'

/** With as many processors or fewer, a helper of the collector often waits for one. */
const FEW_PROCESSORS = 2

/**
 * On a machine of few processors, lets each thread collect its young objects alone. By default it shares that work with
 * helpers and waits until they are done. When git keeps the processors busy, they wait for one, and the event loop with
 * them: up to 28 ms in `npm run hostile -- --together`.
 */
export function collectAlone(): void {
  if (availableParallelism() <= FEW_PROCESSORS) setFlagsFromString('--no-parallel-scavenge')
}
