/** `GET /healthz`: 200 when the stores answer and the projections have caught up. */
import type { FastifyPluginAsync } from 'fastify'
import type { Position } from '../events/event-store.ts'
import type { ReadModelStatus } from '../projections/projector.ts'
import type { Services } from '../services.ts'

export interface Health {
  status: 'ok' | 'catching up' | 'recovering' | 'unhealthy'
  /** Position of the last event of the log; null when the log does not answer. */
  log: Position | null
  readStore: 'ok' | 'unreachable'
  /** Distance between the end of the log and the slowest running read model, in positions; null when unknown. */
  lag: number | null
  readModels: ReadModelStatus[]
}

/** The projections have caught up when they reach the log's present end within this time. */
const CATCH_UP_MS = 1000

/** The state of the server. `recovered`: the work that a crash left unfinished is done. */
async function healthOf(services: Services, recovered: boolean): Promise<Health> {
  const { events, readStore, projector } = services
  const [last, answers] = await Promise.all([
    events.lastPosition().catch(() => null),
    readStore.ping().then(
      () => true,
      () => false,
    ),
  ])
  const current = last !== null && answers && (await projector.waitFor(last, CATCH_UP_MS))
  const readModels = projector.status()
  const lag = last === null ? null : Math.max(0, last - projector.position())
  const broken = last === null || !answers || readModels.some((model) => model.stopped !== undefined)
  const status = broken ? 'unhealthy' : !current ? 'catching up' : recovered ? 'ok' : 'recovering'
  return { status, log: last, readStore: answers ? 'ok' : 'unreachable', lag, readModels }
}

export function healthRoutes(services: Services, recovered: () => boolean): FastifyPluginAsync {
  return async (app) => {
    app.get('/healthz', { schema: { tags: ['server'] } }, async (_request, reply) => {
      const health = await healthOf(services, recovered())
      return reply.code(health.status === 'ok' ? 200 : 503).send(health)
    })
  }
}
