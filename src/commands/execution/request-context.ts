/** The command context of a request, and the wait until queries see the result of its commands. */
import { createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { v5 as uuidV5 } from 'uuid'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Credential } from '../../events/store/event-store.ts'
import type { Services } from '../../services/services.ts'
import { type CommandContext, newContext } from './command-context.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The trace of the request, if tracing is on: the correlation id of its events. */
    traceId?: string | undefined
  }
}

/** Namespace of the ids that derive from Idempotency-Key headers. */
const IDEMPOTENCY_NAMESPACE = '5f6f3f5e-7f0e-4c39-9e55-2f0b5c7f8a11'

const MAX_IDEMPOTENCY_KEY = 255

/**
 * Returns the request's URL, with the id of the repository in place of owner and name: these may have changed when the client
 * retries.
 */
function stableUrlOf({ url, routeOptions, repositoryId }: FastifyRequest): string {
  const at = (routeOptions.url ?? '').split('/').indexOf(':owner')
  if (at === -1) return url
  if (repositoryId === null) throw new Error(`${routeOptions.url}: no repository was looked up`)
  // A client may send an absolute URL.
  const parts = url.replace(/^[^/?]+:\/\/[^/?]*/, '').split('/')
  parts.splice(at, 2, `repository ${repositoryId}`)
  return parts.join('/')
}

const refOf = ({ id, login }: AccountRef): AccountRef => ({ id, login })

/** Creates the context of a request. All its commands share it. */
export function requestContext(request: FastifyRequest): CommandContext {
  const { requester, sudo } = request
  const context = newContext(requester && refOf(requester), request.traceId ?? request.id, request.id)
  if (requester === null) return context
  return { ...context, credential: credentialOf(request), ...(sudo !== null && { sudo: refOf(sudo) }) }
}

function credentialOf({ tokenId, sessionHash }: FastifyRequest): Credential {
  if (tokenId !== null) return 'token'
  return sessionHash === null ? 'password' : 'session'
}

/**
 * Creates the context of a request that can be retried: a POST with an Idempotency-Key. `body` distinguishes two requests with
 * the same key; the log has its digest, so it must not contain a secret. `repositoryId` was set after the permission check, so
 * a client without the permission gets no earlier answer.
 * @throws Refused (invalid) for a key that is empty or too long
 */
export function commandContext(request: FastifyRequest, body: unknown = request.body): CommandContext {
  const context = requestContext(request)
  const key = request.headers['idempotency-key']
  if (key === undefined || request.method !== 'POST') return context
  if (typeof key !== 'string' || key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY) {
    throw new Refused(refuse.invalid(`Idempotency-Key: must have 1 to ${MAX_IDEMPOTENCY_KEY} characters`))
  }
  const text = JSON.stringify(body ?? null)
  const scope = `${context.actor?.id ?? 'anonymous'} ${request.method} ${stableUrlOf(request)} ${key}`
  const namespace = uuidV5(scope, IDEMPOTENCY_NAMESPACE)
  // Keyed, so that a reader of the log cannot test guessed texts.
  const digest = createHmac('sha256', scope).update(text).digest('base64url')
  return { ...context, retry: { namespace, digest } }
}

/**
 * Waits until queries see the appended events. When the projections lag too far behind, or a read model has stopped, the
 * command has still succeeded, and a header of the answer reports the lag. Stopped models are not waited for.
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
