/** What a handler takes from its request: who asks, the repository in the path, the command's context. */
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { v5 as uuidV5 } from 'uuid'
import type { CommandContext } from '../commands/execute.ts'
import type { Permission } from '../events/domain-events.ts'
import { LOG_START } from '../events/event-store.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type RepositoryDocument, repositoryKey } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { type Access, accessTo, atLeast } from '../rights/access.ts'
import type { Services } from '../services.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The signed-in account; null for an anonymous request. */
    requester: AccountDocument | null
  }
}

/** Namespace of the ids that derive from Idempotency-Key headers. */
const IDEMPOTENCY_NAMESPACE = '5f6f3f5e-7f0e-4c39-9e55-2f0b5c7f8a11'
const MAX_IDEMPOTENCY_KEY = 255

/** The signed-in requester, or 401. */
export function signedIn(request: FastifyRequest): AccountDocument {
  if (request.requester === null) throw new Refused(refuse.unauthenticated('sign in first'))
  return request.requester
}

/** The signed-in requester, who must be a site admin. `what` says what only they do. */
export function siteAdmin(request: FastifyRequest, what: string): AccountDocument {
  const requester = signedIn(request)
  if (!requester.siteAdmin) throw new Refused(refuse.forbidden(`only site admins ${what}`))
  return requester
}

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

export interface RepositoryPath {
  owner: string
  repo: string
}

export interface RepositoryAccess {
  repository: RepositoryDocument
  access: Access
}

/**
 * The repository in the path, for a requester who has at least that permission.
 * 404 when it does not exist or the requester may not even read it, 401 / 403 when the permission is too low.
 */
export async function repositoryFor(
  services: Services,
  request: FastifyRequest,
  path: RepositoryPath,
  needed: Permission,
): Promise<RepositoryAccess> {
  const key = repositoryKey(path.owner, path.repo)
  const repository = await services.views.repositories.findOne({ key })
  const access = repository === undefined ? 'none' : accessTo(repository, request.requester)
  if (repository === undefined || !atLeast(access, 'read')) {
    throw new Refused(refuse.notFound('repository not found'))
  }
  if (!atLeast(access, needed)) {
    signedIn(request)
    throw new Refused(refuse.forbidden(`this needs ${needed} permission on the repository`))
  }
  return { repository, access }
}
