/** Retries steps of the start during an outage of a store. */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { mayHeal } from './event-store.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/** Runs a step of the start, and retries it after each outage of a store until the start has taken too long. */
export type StartupRetry = <T>(step: () => Promise<T>) => Promise<T>

/**
 * Creates the retry of one start. A step may run several times, as after a crash: it must be idempotent. `maxMs` limits
 * the whole start.
 */
export function createStartupRetry(log: Pick<FastifyBaseLogger, 'warn'>, maxMs: number): StartupRetry {
  const end = performance.now() + maxMs
  return async (step) => {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return await step()
      } catch (error) {
        if (!mayHeal(error) || performance.now() + pause > end) throw error
        log.warn({ err: error }, 'the start waits for a store that does not answer')
        await delay(pause)
      }
    }
  }
}
