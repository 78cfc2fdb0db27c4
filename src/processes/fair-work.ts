/**
 * Work that a process leaves to a worker. A process is one line for all repositories, and what takes long would keep them
 * waiting. The worker has a few places, and nobody has two of them. The next one gets whoever's work has taken the least
 * time lately.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createPauses } from '../pauses.ts'
import { createRecentUse } from '../recent-use.ts'
import type { Hold } from './process-manager.ts'

export interface Work {
  /** Two with the same id are never done at the same time. */
  id: string
  /** Whose share of the time it takes. */
  account: string
}

interface Options<W extends Work> {
  places: number
  /** The pause after a failure, in milliseconds. It is twice as long each time. */
  pauseMs?: number | undefined
  /** All that is to be done when this node begins with it: at a start, or after another node. */
  all(): AsyncIterable<W>
  /** Does one. What fails is done again, after a pause. `failures`: how often it has failed, one time after the other. */
  work(one: W, failures: number): Promise<void>
  /** Is told what failed; without `one`, that what is to be done could not be read. */
  failed(error: unknown, one?: W): void
}

/** After this time, in milliseconds, what somebody has used counts half. */
const HALF_LIFE_MS = 10 * 60_000
/** How often a node that does not run the process looks whether it does. */
const LOOK_MS = 500
const PAUSE_MS = 2000
const MAX_PAUSE_MS = 64_000

/** Work that waits. However often it is added, it is one: who waits for it waits for the same. */
interface Waiting<W> {
  one: W
  failures: number
  done: Promise<void>
  tell: () => void
}

/** Makes the worker. `signal` ends it. */
export function createFairWork<W extends Work>(
  { places, pauseMs = PAUSE_MS, all, work, failed }: Options<W>,
  signal: AbortSignal,
) {
  const waiting = new Map<string, Waiting<W>>()
  const busy = new Map<string, { account: string; done: Promise<void> }>()
  const used = createRecentUse(HALF_LIFE_MS, () => performance.now())
  const { pause, wake } = createPauses(signal)
  let following: Promise<void> = Promise.resolve()

  /** What waits already is done once. What is being done is done again: it may have begun too early. */
  function add(one: W): Promise<void> {
    const { done, tell } = waiting.get(one.id) ?? untilTold()
    waiting.set(one.id, { one, failures: 0, done, tell })
    wake()
    return done
  }

  /** After a failure. It may have been added anew since: then both are told. */
  function addAgain({ one, failures, done, tell }: Waiting<W>): void {
    const newer = waiting.get(one.id)
    const tellAll = () => {
      tell()
      newer?.tell()
    }
    waiting.set(one.id, {
      one: newer?.one ?? one,
      failures: failures + 1,
      done: newer?.done ?? done,
      tell: tellAll,
    })
    wake()
  }

  async function doOne(next: Waiting<W>): Promise<void> {
    const { one, failures, tell } = next
    const began = performance.now()
    try {
      await work(one, failures)
      tell()
    } catch (error) {
      if (signal.aborted) return
      failed(error, one)
      setTimeout(() => addAgain(next), Math.min(MAX_PAUSE_MS, pauseMs * 2 ** failures)).unref()
    } finally {
      busy.delete(one.id)
      used.add(one.account, performance.now() - began)
      wake()
    }
  }

  function beginAll(): void {
    while (busy.size < places) {
      const atWork = new Set(busy.values().map(({ account }) => account))
      const ready = [...waiting.values()].filter(({ one }) => !busy.has(one.id) && !atWork.has(one.account))
      const least = used.least(ready.map(({ one }) => one.account))
      const next = ready.find(({ one }) => one.account === least)
      if (next === undefined) return
      const { id, account } = next.one
      waiting.delete(id)
      busy.set(id, { account, done: doOne(next) })
    }
  }

  async function keepWorking(hold: Hold): Promise<void> {
    let loadedFor: string | undefined
    while (!signal.aborted) {
      try {
        const held = hold()
        if (held !== loadedFor) {
          loadedFor = undefined
          waiting.clear()
        }
        if (held !== undefined) {
          if (loadedFor === undefined) for await (const one of all()) void add(one)
          loadedFor = held
          beginAll()
        }
        await pause(LOOK_MS)
      } catch (error) {
        if (signal.aborted) break
        failed(error)
        await delay(pauseMs, undefined, { signal }).catch(() => {})
      }
    }
    await Promise.all(busy.values().map(({ done }) => done))
  }

  return {
    /** Has it done by the worker. Resolves when it is done; never, when this node does not do it. */
    add,
    /** Begins to work, while this node runs the process. */
    start(hold: Hold): void {
      following = keepWorking(hold)
    },
    /** Resolves when the worker has ended, after the signal was aborted. */
    stopped: () => following,
  }
}

function untilTold(): Pick<Waiting<unknown>, 'done' | 'tell'> {
  const { promise: done, resolve: tell } = Promise.withResolvers<void>()
  return { done, tell }
}
