/** One outage of a store is one line in the log, however many requests and loops meet it. */
import type { LoggerOptions } from 'pino'
import { StoreUnavailable } from '../events/event-store.ts'

/** An outage is over when nothing was logged about it for so long, in milliseconds. */
const QUIET_MS = 10_000

type Hook = NonNullable<NonNullable<LoggerOptions['hooks']>['logMethod']>

/** A hook for the logger. `now` gives milliseconds. */
export function oneLinePerOutage(now: () => number = () => performance.now()): Hook {
  /** When each store was last missed. Stores are told apart by the first word of the error. */
  const missed = new Map<string, number>()
  return function hook(args, method) {
    const [first]: unknown[] = args
    const error = typeof first === 'object' && first !== null && 'err' in first ? first.err : undefined
    if (!(error instanceof StoreUnavailable)) return method.apply(this, args)
    const [store = ''] = error.message.split(/\W/, 1)
    const last = missed.get(store)
    missed.set(store, now())
    if (last !== undefined && now() - last < QUIET_MS) return
    method.call(
      this,
      { reason: error.message },
      'a store does not answer; until it does, no more lines about this',
    )
  }
}
