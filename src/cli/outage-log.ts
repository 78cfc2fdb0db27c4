/** One outage of a store is two lines in the log: its beginning and its end. So many requests and loops meet it. */
import type { LoggerOptions } from 'pino'
import { StoreUnavailable } from '../events/event-store.ts'

/** An outage is over when nothing was logged about it for so long, in milliseconds: the server tries again more often. */
const QUIET_MS = 10_000

type Hook = NonNullable<NonNullable<LoggerOptions['hooks']>['logMethod']>

interface Outage {
  began: number
  /** When the store was last missed. */
  missed: number
}

/** A hook for the logger. `now` gives milliseconds, and `later` calls a function after so many of them. */
export function oneLinePerOutage(
  now: () => number = () => performance.now(),
  later: (call: () => void, ms: number) => void = (call, ms) => void setTimeout(call, ms).unref(),
): Hook {
  /** The outages that go on. Stores are told apart by the first word of the error. */
  const outages = new Map<string, Outage>()

  /** Calls `over` when the store was not missed for long enough. */
  function awaitEnd(store: string, outage: Outage, over: (outage: Outage) => void): void {
    later(
      () => {
        if (now() - outage.missed < QUIET_MS) return awaitEnd(store, outage, over)
        outages.delete(store)
        over(outage)
      },
      outage.missed + QUIET_MS - now(),
    )
  }

  return function hook(args, method) {
    const [first]: unknown[] = args
    const error = typeof first === 'object' && first !== null && 'err' in first ? first.err : undefined
    if (!(error instanceof StoreUnavailable)) return method.apply(this, args)
    const [store = ''] = error.message.split(/\W/, 1)
    const known = outages.get(store)
    if (known !== undefined) {
      known.missed = now()
      return
    }
    const outage = { began: now(), missed: now() }
    outages.set(store, outage)
    awaitEnd(store, outage, ({ began, missed }) => {
      const seconds = Math.round((missed - began) / 1000)
      this.warn({ store, seconds }, `a store answers again: it was missed for ${seconds} s`)
    })
    method.call(
      this,
      { reason: error.message },
      'a store does not answer; until it does, no more lines about this',
    )
  }
}
