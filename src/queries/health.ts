/** `GET /healthz`: 200 when the stores answer and the projections have caught up. */
import type { FastifyPluginAsync } from 'fastify'
import { type Position, StoreDenied } from '../events/event-store.ts'
import type { ReadModelStatus } from '../projections/projector.ts'
import type { Services } from '../services.ts'

export interface Health {
  status: 'ok' | 'catching up' | 'recovering' | 'unhealthy'
  /** Position of the last event of the log; null when the log does not answer. */
  log: Position | null
  /** What an operator should know about the log. Absent when there is nothing. */
  problems?: readonly string[]
  /** Pushes that git has and the log has not, because they cannot be recorded. Absent when there are none. */
  unrecordedPushes?: readonly { repository: number; reason: string }[]
  readStore: 'ok' | 'unreachable'
  /** Distance between the end of the log and the slowest running read model, in positions; null when unknown. */
  lag: number | null
  readModels: ReadModelStatus[]
  processes: ProcessHealth[]
}

/** A process manager that reacts to events. */
interface ProcessHealth {
  name: string
  position: Position
  /** Why it stopped, or what it waits for; absent while it runs. */
  stopped?: string
}

/** What only the server itself knows. */
export interface ServerState {
  /** Whether the work that a crash left unfinished is done. */
  recovered: boolean
  processes: ProcessHealth[]
}

/** The projections have caught up when they reach the log's present end within this time. */
const CATCH_UP_MS = 1000

async function healthOf(services: Services, { recovered, processes }: ServerState): Promise<Health> {
  const { events, readStore, projector } = services
  let deniedRead: string | undefined
  const [last, answers] = await Promise.all([
    events.lastPosition().catch((error: unknown) => {
      if (error instanceof StoreDenied) deniedRead = error.message
      return null
    }),
    readStore.ping().then(
      () => true,
      () => false,
    ),
  ])
  const current = last !== null && answers && (await projector.waitFor(last, CATCH_UP_MS))
  const readModels = projector.status()
  const lag = last === null ? null : Math.max(0, last - projector.position())
  const known = events.problems?.()
  const denied = [deniedRead, known?.denied].filter((reason) => reason !== undefined)
  const problems = [...denied, ...(known?.others ?? [])]
  const unrecordedPushes = services.pushJournal
    .unrecorded()
    .map(({ key, reason }) => ({ repository: Number(key), reason }))
  const broken =
    denied.length > 0 ||
    last === null ||
    !answers ||
    [...readModels, ...processes].some(({ stopped }) => stopped !== undefined)
  const isDone = recovered && unrecordedPushes.length === 0
  const status = broken ? 'unhealthy' : !current ? 'catching up' : isDone ? 'ok' : 'recovering'
  const found = {
    ...(problems.length > 0 && { problems }),
    ...(unrecordedPushes.length > 0 && { unrecordedPushes }),
  }
  return {
    status,
    log: last,
    ...found,
    readStore: answers ? 'ok' : 'unreachable',
    lag,
    readModels,
    processes,
  }
}

export function healthRoutes(services: Services, state: () => ServerState): FastifyPluginAsync {
  return async (app) => {
    app.get('/healthz', { schema: { tags: ['server'] } }, async (_request, reply) => {
      const health = await healthOf(services, state())
      return reply.code(health.status === 'ok' ? 200 : 503).send(health)
    })
  }
}
