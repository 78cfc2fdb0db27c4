/**
 * `GET /healthz`: 200 when the stores answer and the projections have caught up, so that a load balancer may send
 * clients here. `GET /livez`: 200 while the process answers.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { LogReplaced, StoreDenied } from '../../events/store/event-store.ts'
import type { Services } from '../../services/services.ts'

/** Progress of a read model or a process manager. */
const Follower = Type.Object({
  name: Type.String(),
  position: Type.Integer(),
  stopped: Type.Optional(
    Type.String({ description: 'Reason why it stopped, or what it waits for; absent while it runs' }),
  ),
})

const Health = Type.Object(
  {
    status: Type.Enum(['ok', 'catching up', 'recovering', 'unhealthy', 'stopping'], {
      description: 'State of the server; a stopping one answers, but clients should use another node',
    }),
    log: Nullable(Type.Integer(), {
      description: 'Position of the last event of the log; null when the log does not answer',
    }),
    problems: Type.Optional(
      Type.Array(Type.String(), { description: 'Problems of the stores, for operators' }),
    ),
    unrecordedPushes: Type.Optional(
      Type.Array(Type.Object({ repository: Type.Integer(), reason: Type.String() }), {
        description: 'Pushes that git has and the log cannot record',
      }),
    ),
    readStore: Type.Enum(['ok', 'unreachable']),
    lag: Nullable(Type.Integer(), {
      description:
        'Distance from the slowest read model to the end of the log, in positions; null when unknown',
    }),
    readModels: Type.Array(Follower),
    processes: Type.Array(Follower),
  },
  { title: 'Health' },
)
type Health = Static<typeof Health>

/** State known only to the server itself. */
export interface ServerState {
  /** Whether recovery from the last crash is complete. */
  recovered: boolean
  processes: Health['processes']
}

/** Time within which the projections must reach the current end of the log to count as caught up. */
const CATCH_UP_MS = 1000

/** Hides the reason, which may contain internal addresses: the route is public. */
const SILENT = 'does not answer: the output of the server tells why'

async function healthOf(
  services: Services,
  { recovered, processes }: ServerState,
  stopping: boolean,
): Promise<Health> {
  const { events, readStore, projector } = services
  let unusable: string | undefined
  const [last, answers] = await Promise.all([
    events.lastPosition().catch((error: unknown) => {
      if (error instanceof StoreDenied || error instanceof LogReplaced) unusable = error.message
      return null
    }),
    readStore.ping().then(
      () => true,
      () => false,
    ),
  ])
  const current = !stopping && last !== null && answers && (await projector.waitFor(last, CATCH_UP_MS))
  const readModels = projector.status()
  const lag = last === null ? null : Math.max(0, last - projector.position())
  const known = events.problems?.()
  const denied = [unusable, known?.denied].filter((reason) => reason !== undefined)
  const diskIsFull = projector.isDiskFull()
  const problems = [
    ...denied,
    ...(last === null && denied.length === 0 ? [`the log ${SILENT}`] : []),
    ...(answers ? [] : [`the store of the read models ${SILENT}`]),
    ...(diskIsFull ? ['the disk of the read models is full'] : []),
    ...(known?.unusable ?? []),
    ...(known?.others ?? []),
  ]
  const unrecordedPushes = services.pushJournal
    .unrecorded()
    .map(({ key, reason }) => ({ repository: Number(key), reason }))
  const broken =
    !services.nodes.isMember() ||
    denied.length > 0 ||
    last === null ||
    !answers ||
    diskIsFull ||
    [...readModels, ...processes].some(({ stopped }) => stopped !== undefined)
  const isDone = recovered && unrecordedPushes.length === 0
  const status = stopping
    ? 'stopping'
    : broken
      ? 'unhealthy'
      : !current
        ? 'catching up'
        : isDone
          ? 'ok'
          : 'recovering'
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

const Live = Type.Object({ status: Type.Enum(['ok']) })

/** `leaving` is aborted when the server is about to stop. */
export function healthRoutes(
  services: Services,
  state: () => ServerState,
  leaving: AbortSignal,
): FastifyPluginAsyncTypebox {
  const common = { tags: ['server'], security: [] }
  const schema = { ...common, response: { 200: Health, 503: Health } }
  return async (app) => {
    // Queries no store: a restart of this process does not repair a store.
    app.get('/livez', { schema: { ...common, response: { 200: Live } } }, async () => ({
      status: 'ok' as const,
    }))
    app.get('/healthz', { schema }, async (_request, reply) => {
      const health = await healthOf(services, state(), leaving.aborted)
      return reply.code(health.status === 'ok' ? 200 : 503).send(health)
    })
  }
}
