/** Retries steps of the startup during an outage of a store. */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { mayRecover } from './event-store.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/** Runs a step of the startup, and retries it after each outage of a store, up to a time limit. */
export type StartupRetry = <T>(step: () => Promise<T>) => Promise<T>

/**
 * Creates the retry of one startup. A step may run several times, so it must be idempotent. `maxMs` limits the whole
 * startup.
 */
export function createStartupRetry(log: Pick<FastifyBaseLogger, 'warn'>, maxMs: number): StartupRetry {
  const end = performance.now() + maxMs
  return async (step) => {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return await step()
      } catch (error) {
        if (!mayRecover(error) || performance.now() + pause > end) throw error
        log.warn({ err: error }, 'startup waits for a store that does not answer')
        await delay(pause)
      }
    }
  }
}
