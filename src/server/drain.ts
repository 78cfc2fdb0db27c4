/** Ends the requests of a stopping server. */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { deadlineAfter } from '../concurrency/deadline.ts'
import type { Config } from '../config/config.ts'
import { limitReached } from '../errors/limits.ts'

/** Waits `DRAIN_MS`, so that load balancers stop sending requests. `hurry` ends the wait. */
export async function drain({ drainMs }: Config, log: FastifyBaseLogger, hurry?: AbortSignal): Promise<void> {
  if (drainMs > 0) {
    log.info({ drainMs }, 'stopping; /healthz is 503 now, other requests are still answered')
    await delay(drainMs, undefined, { signal: hurry }).catch(() => {})
  }
}

/** Closes the application and waits for `others`. Closes connections of running requests after `STOP_TIMEOUT_MS`. */
export async function closeInTime(
  { stopTimeoutMs }: Config,
  log: FastifyBaseLogger,
  app: FastifyInstance,
  others: readonly (Promise<void> | undefined)[],
): Promise<void> {
  const cancel = deadlineAfter(stopTimeoutMs, () => {
    limitReached('stop_time')
    log.warn({ stopTimeoutMs }, 'requests still run; their connections are closed')
    app.server.closeAllConnections()
  })
  await Promise.all([app.close(), ...others])
  cancel()
}
