/** What a command takes from its request: who acts, when, and under which ids. */
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { v5 as uuidV5 } from 'uuid'
import { LOG_START } from '../events/event-store.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import type { CommandContext } from './execute.ts'

/** Namespace of the ids that derive from Idempotency-Key headers. */
const IDEMPOTENCY_NAMESPACE = '5f6f3f5e-7f0e-4c39-9e55-2f0b5c7f8a11'

const MAX_IDEMPOTENCY_KEY = 255

/** Who acts, when, and under which ids: taken from the request once, for all that it appends. */
export function requestContext(request: FastifyRequest): CommandContext {
  const { requester } = request
  return {
    actor: requester === null ? null : { id: requester.id, login: requester.login },
    at: new Date().toISOString(),
    correlationId: request.id,
    causationId: request.id,
    written: LOG_START,
  }
}

/**
 * The same for a command: a POST with an Idempotency-Key can be sent again. `body` is what tells two requests
 * with one key apart; its digest stands in the log, so it must hold no secret.
 */
export function commandContext(request: FastifyRequest, body: unknown = request.body): CommandContext {
  const context = requestContext(request)
  const key = request.headers['idempotency-key']
  if (key === undefined || request.method !== 'POST') return context
  if (typeof key !== 'string' || key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY) {
    throw new Refused(refuse.invalid(`Idempotency-Key: 1 to ${MAX_IDEMPOTENCY_KEY} characters`))
  }
  const scope = `${context.actor?.id ?? 'anonymous'} ${request.method} ${request.url} ${key}`
  const digest = createHash('sha256')
    .update(JSON.stringify(body ?? null))
    .digest('base64url')
  return { ...context, retry: { namespace: uuidV5(scope, IDEMPOTENCY_NAMESPACE), digest } }
}

/**
 * Waits until queries see what the command appended. When the projections lag too far behind, the command
 * has succeeded all the same and the answer says so in a header.
 */
export async function settled(
  services: Services,
  context: CommandContext,
  reply: FastifyReply,
): Promise<void> {
  const passed = await services.projector.waitFor(context.written, services.config.projectionWaitMs)
  if (!passed) reply.header('Mergelog-Projection', 'lagging')
}
