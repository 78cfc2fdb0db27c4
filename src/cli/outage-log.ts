/**
 * Reduces the log of an outage of a store, a full disk or another host failure to two lines, its beginning and end,
 * although many requests and loops meet it.
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
  /** When the store was last missed. */
  missed: number
}

/** A failing component, and its log lines. */
interface Trouble {
  /** Key of the outage. */
  what: string
  begins: string
  ends(seconds: number): { facts: object; message: string }
}

const DISK_FULL: Trouble = {
  what: 'disk',
  begins: 'the disk is full; until there is room, no more lines about this',
  ends: (seconds) => ({
    facts: { seconds },
    message: `there is room on the disk again: it was full for ${seconds} s`,
  }),
}

const troubleOfMachine = (what: string): Trouble => ({
  what,
  begins: `${what}; until that is over, no more lines about this`,
  ends: (seconds) => ({ facts: { seconds }, message: `it is over, after ${seconds} s: ${what}` }),
})

/** Errors of a store begin with its name, or with the setting that names it. Those of the embedded ones are sentences. */
const STORE = /^(?:EventStoreDB|MongoDB|EVENTSTORE_URL|MONGODB_URL|the event log|the read models)\b/

/** Follow-up failures: this server is behind the others, or has lost its membership. */
const OTHER: Trouble = {
  what: 'other',
  begins: 'requests are refused for now; until that is over, no more lines about this',
  ends: (seconds) => ({
    facts: { seconds },
    message: `no requests are refused any more, after ${seconds} s`,
  }),
}

/** Each damaged part of the log is a trouble of its own, and no outage of the store. */
const damage = (what: string): Trouble => ({
  what,
  begins:
    'the log is damaged: an operator must repair it ("mergelog verify" says how); no more lines about this',
  ends: (seconds) => ({
    facts: { damage: what, seconds },
    message: `nobody meets this damage of the log any more, after ${seconds} s`,
  }),
})

function troubleOf(error: unknown): Trouble | undefined {
  // Whatever failed: the disk may hold the log, too.
  if (isDiskFull(error)) return DISK_FULL
  const machine = hostFailureOf(error)
  if (machine !== undefined) return troubleOfMachine(machine)
  if (!(error instanceof StoreUnavailable)) return undefined
  if (error instanceof StreamUnusable) return damage(error.message)
  const [store] = STORE.exec(error.message) ?? []
  if (store === undefined) return OTHER
  return {
    what: store,
    begins: 'a store does not answer; until it does, no more lines about this',
    ends: (seconds) => ({
      facts: { store, seconds },
      message: `a store answers again: it was missed for ${seconds} s`,
    }),
  }
}

/** Returns a hook for the logger. `now` returns milliseconds; `later` calls a function after a number of them. */
export function oneLinePerOutage(
  now: () => number = () => performance.now(),
  later: (call: () => void, ms: number) => void = (call, ms) => void setTimeout(call, ms).unref(),
): Hook {
  const outages = new Map<string, Outage>()

  /** Calls `over` when the store was not missed for long enough. */
  function awaitEnd(what: string, outage: Outage, over: (outage: Outage) => void): void {
    later(
      () => {
        if (now() - outage.missed < QUIET_MS) return awaitEnd(what, outage, over)
        outages.delete(what)
        over(outage)
      },
      outage.missed + QUIET_MS - now(),
    )
  }

  return function hook(args, method) {
    const [first]: unknown[] = args
    const named = typeof first === 'object' && first !== null && 'err' in first ? first.err : undefined
    const error = first instanceof Error ? first : named
    const trouble = troubleOf(error)
    if (trouble === undefined || !(error instanceof Error)) return method.apply(this, args)
    const { what, begins, ends } = trouble
    const known = outages.get(what)
    if (known !== undefined) {
      known.missed = now()
      return
    }
    const outage = { began: now(), missed: now() }
    outages.set(what, outage)
    awaitEnd(what, outage, ({ began, missed }) => {
      const { facts, message } = ends(Math.round((missed - began) / 1000))
      this.warn(facts, message)
    })
    method.call(this, { reason: error.message }, begins)
  }
}
