/** Between a request and its command: who acts, when and under which ids; and the wait until queries see the result. */
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { v5 as uuidV5 } from 'uuid'
import type { DomainEvent } from '../events/domain-events.ts'
import { LOG_START } from '../events/event-store.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import { type Command, type CommandContext, execute } from './execute.ts'

/** Namespace of the ids that derive from Idempotency-Key headers. */
const IDEMPOTENCY_NAMESPACE = '5f6f3f5e-7f0e-4c39-9e55-2f0b5c7f8a11'

const MAX_IDEMPOTENCY_KEY = 255

/** Who acts, when, and under which ids. One context serves all that the request appends. */
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
 * The context of a request that can be retried: a POST with an Idempotency-Key. `body` tells two requests with the
 * same key apart. Its digest is kept in the log, so it must not hold a secret.
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
  const scope = `${context.actor?.id ?? 'anonymous'} ${request.method} ${request.url} ${key}`
  const digest = createHash('sha256')
    .update(JSON.stringify(body ?? null))
    .digest('base64url')
  return { ...context, retry: { namespace: uuidV5(scope, IDEMPOTENCY_NAMESPACE), digest } }
}

/**
 * Waits until queries see what the command appended. When the projections lag too far behind, the command has still
 * succeeded, and a header of the answer says that they lag.
 */
export async function settled(
  services: Services,
  context: CommandContext,
  reply: FastifyReply,
): Promise<void> {
  const passed = await services.projector.waitFor(context.written, services.config.projectionWaitMs)
  if (!passed) reply.header('Mergelog-Projection', 'lagging')
}

/** Executes the only command of a request and waits until queries see it. Resolves to the state after it. */
export async function executeRequest<State, Event extends DomainEvent>(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  command: Command<State, Event>,
): Promise<State> {
  const context = commandContext(request)
  const state = await execute(services.events, context, command)
  await settled(services, context, reply)
  return state
}
