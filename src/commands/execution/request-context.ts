/** Between a request and its command: who acts, when and under which ids; and the wait until queries see the result. */
import { createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { v5 as uuidV5 } from 'uuid'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Services } from '../../services/services.ts'
import { type CommandContext, newContext } from './execute.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The trace of the request, when traces are made: then its events have this correlation id. */
    traceId?: string | undefined
  }
}

/** Namespace of the ids that derive from Idempotency-Key headers. */
const IDEMPOTENCY_NAMESPACE = '5f6f3f5e-7f0e-4c39-9e55-2f0b5c7f8a11'

const MAX_IDEMPOTENCY_KEY = 255

/**
 * The request's URL, with the id of the repository that it names in the place of its owner and its name: these may be
 * others when the request is sent again.
 */
function lastingUrlOf({ url, routeOptions, repositoryId }: FastifyRequest): string {
  const at = (routeOptions.url ?? '').split('/').indexOf(':owner')
  if (at === -1) return url
  if (repositoryId === null) throw new Error(`${routeOptions.url}: no repository was looked up`)
  // A client may send a whole URL.
  const parts = url.replace(/^[^/?]+:\/\/[^/?]*/, '').split('/')
  parts.splice(at, 2, `repository ${repositoryId}`)
  return parts.join('/')
}

const refOf = ({ id, login }: AccountRef): AccountRef => ({ id, login })

/** Who acts, when, and under which ids. One context serves all that the request appends. */
export function requestContext(request: FastifyRequest): CommandContext {
  const { requester, sudo } = request
  const context = newContext(requester && refOf(requester), request.traceId ?? request.id, request.id)
  return sudo === null ? context : { ...context, sudo: refOf(sudo) }
}

/**
 * The context of a request that can be retried: a POST with an Idempotency-Key. `body` tells two requests with the
 * same key apart. Its digest is kept in the log, so it must not hold a secret. A repository in the path is looked up
 * before, by what sets `repositoryId`: so nobody gets an earlier answer without the rights that the request needs now.
 *
 * @throws Refused (invalid) for a key that is empty or too long
 */
export function commandContext(request: FastifyRequest, body: unknown = request.body): CommandContext {
  const context = requestContext(request)
  const key = request.headers['idempotency-key']
  if (key === undefined || request.method !== 'POST') return context
  if (typeof key !== 'string' || key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY) {
    throw new Refused(refuse.invalid(`Idempotency-Key: 1 to ${MAX_IDEMPOTENCY_KEY} characters`))
  }
  const text = JSON.stringify(body ?? null)
  const scope = `${context.actor?.id ?? 'anonymous'} ${request.method} ${lastingUrlOf(request)} ${key}`
  const namespace = uuidV5(scope, IDEMPOTENCY_NAMESPACE)
  // Keyed, so that nobody can try texts with what the log has.
  const digest = createHmac('sha256', scope).update(text).digest('base64url')
  return { ...context, retry: { namespace, digest } }
}

/**
 * Waits until queries see what the command appended. When the projections lag too far behind, or a read model has
 * stopped, the command has still succeeded, and a header of the answer says so. There is no wait for stopped models.
 */
export async function settled(
  services: Services,
  context: CommandContext,
  reply: FastifyReply,
): Promise<void> {
  const { projector, config } = services
  const stopped = projector.stopped().length
  const isRunning = stopped === 0 || stopped < projector.status().length
  const passed = isRunning && (await projector.waitFor(context.written, config.projectionWaitMs))
  if (!passed || projector.stopped().length > 0) reply.header('Mergelog-Projection', 'lagging')
}
