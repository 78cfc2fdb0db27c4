/**
 * Reduces the log of an outage (a store, a full disk, another host failure) to two lines for its start and end,
 * although many requests and loops fail.
 */
import type { LoggerOptions } from 'pino'
import { StoreUnavailable, StreamUnusable } from '../events/store/event-store.ts'
import { isDiskFull } from '../storage/disk-full.ts'
import { hostFailureOf } from '../storage/host-failure.ts'

/** Time without log lines after which an outage has ended, in milliseconds. The server retries more often. */
const QUIET_MS = 10_000

type Hook = NonNullable<NonNullable<LoggerOptions['hooks']>['logMethod']>

interface Outage {
  began: number
  /** Time of the last failure. */
  lastFailure: number
}

/** A failing component, and its log lines. */
interface Failure {
  /** Key of the outage. */
  what: string
  begins: string
  ends(seconds: number): { facts: object; message: string }
}

const DISK_FULL: Failure = {
  what: 'disk',
  begins: 'the disk is full; further lines about this are left out until it has space',
  ends: (seconds) => ({
    facts: { seconds },
    message: `the disk has space again: it was full for ${seconds} s`,
  }),
}

const hostFailure = (what: string): Failure => ({
  what,
  begins: `${what}; further lines about this are left out until it ends`,
  ends: (seconds) => ({ facts: { seconds }, message: `ended after ${seconds} s: ${what}` }),
})

/** Start of a store's error message: its name or setting, or a sentence for an embedded store. */
const STORE = /^(?:EventStoreDB|MongoDB|EVENTSTORE_URL|MONGODB_URL|the event log|the read models)\b/

/** Follow-up failures: this server is behind the others, or has lost its membership. */
const OTHER: Failure = {
  what: 'other',
  begins: 'requests are refused; further lines about this are left out until it ends',
  ends: (seconds) => ({
    facts: { seconds },
    message: `requests are accepted again, after ${seconds} s`,
  }),
}

/** Each damaged part of the log is a separate failure, not an outage of the store. */
const damage = (what: string): Failure => ({
  what,
  begins:
    'the log is damaged: an operator must repair it (see "mergelog verify"); further lines about this are left out',
  ends: (seconds) => ({
    facts: { damage: what, seconds },
    message: `this damage of the log no longer causes errors, after ${seconds} s`,
  }),
})

function failureOf(error: unknown): Failure | undefined {
  // Checked first: an error of the store may be caused by a full disk.
  if (isDiskFull(error)) return DISK_FULL
  const machine = hostFailureOf(error)
  if (machine !== undefined) return hostFailure(machine)
  if (!(error instanceof StoreUnavailable)) return undefined
  if (error instanceof StreamUnusable) return damage(error.message)
  const [store] = STORE.exec(error.message) ?? []
  if (store === undefined) return OTHER
  return {
    what: store,
    begins: 'a store does not answer; further lines about this are left out until it does',
    ends: (seconds) => ({
      facts: { store, seconds },
      message: `a store answers again: it was unavailable for ${seconds} s`,
    }),
  }
}

/** Returns a hook for the logger. `now` returns milliseconds; `later` calls a function after a number of them. */
export function oneLinePerOutage(
  now: () => number = () => performance.now(),
  later: (call: () => void, ms: number) => void = (call, ms) => void setTimeout(call, ms).unref(),
): Hook {
  const outages = new Map<string, Outage>()

  /** Calls `over` after `QUIET_MS` without failures. */
  function awaitEnd(what: string, outage: Outage, over: (outage: Outage) => void): void {
    later(
      () => {
        if (now() - outage.lastFailure < QUIET_MS) return awaitEnd(what, outage, over)
        outages.delete(what)
        over(outage)
      },
      outage.lastFailure + QUIET_MS - now(),
    )
  }

  return function hook(args, method) {
    const [first]: unknown[] = args
    const named = typeof first === 'object' && first !== null && 'err' in first ? first.err : undefined
    const error = first instanceof Error ? first : named
    const failure = failureOf(error)
    if (failure === undefined || !(error instanceof Error)) return method.apply(this, args)
    const { what, begins, ends } = failure
    const known = outages.get(what)
    if (known !== undefined) {
      known.lastFailure = now()
      return
    }
    const outage = { began: now(), lastFailure: now() }
    outages.set(what, outage)
    awaitEnd(what, outage, ({ began, lastFailure }) => {
      const { facts, message } = ends(Math.round((lastFailure - began) / 1000))
      this.warn(facts, message)
    })
    method.call(this, { reason: error.message }, begins)
  }
}
