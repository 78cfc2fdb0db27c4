/** Webhooks on the wire, and the look-ups of the webhook in a path and of its owner. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { repositoryAt } from '../../access/repository-access.ts'
import { signedIn, siteAdmin } from '../../auth/requester.ts'
import { type WebhookConfig, webhookConfigsOf } from '../../auth/webhook-configs.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { HookEvent, WebhookScope } from '../../events/catalog/webhooks.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { WebhookDelivery } from '../../projections/models/webhooks/webhook-deliveries.fold.ts'
import { type WebhookDocument, webhookScopeKey } from '../../projections/models/webhooks/webhooks.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { Nullable } from '../nullable.ts'
import { OrganizationParams, organizationFor } from '../organizations/organizations.ts'
import { RepositoryParams } from '../repositories/repositories.ts'

const id = { id: Type.String() }

/** The kinds of owners, with the paths of their webhooks, and the parameters of the list and of one webhook. */
export const WEBHOOK_OWNERS = [
  {
    scope: 'repository',
    url: '/repos/:owner/:repo/hooks',
    all: RepositoryParams,
    one: Type.Object({ ...RepositoryParams.properties, ...id }),
  },
  {
    scope: 'organization',
    url: '/orgs/:org/hooks',
    all: OrganizationParams,
    one: Type.Object({ ...OrganizationParams.properties, ...id }),
  },
  { scope: 'user', url: '/user/hooks', all: Type.Object({}), one: Type.Object(id) },
  { scope: 'admin', url: '/admin/hooks', all: Type.Object({}), one: Type.Object(id) },
] as const

export const HookWire = Type.Object(
  {
    id: Type.Integer(),
    type: Type.String(),
    branch_filter: Type.String(),
    config: Type.Object({
      url: Type.String(),
      content_type: Type.String(),
    }),
    events: Type.Array(Type.String()),
    authorization_header: Type.String({ description: 'Always empty: secrets are not shown' }),
    active: Type.Boolean(),
    updated_at: Type.String(),
    created_at: Type.String(),
  },
  { title: 'Hook' },
)

/** Returns a webhook as Gitea's `Hook`. `config`: undefined when the store of the secrets has lost it. */
function hookWire(
  { id, type, branchFilter, contentType, events, active, origin, updatedAt, createdAt }: WebhookDocument,
  config: WebhookConfig | undefined,
): Static<typeof HookWire> {
  return {
    id,
    type,
    branch_filter: branchFilter,
    config: { url: config?.url ?? origin, content_type: contentType },
    events,
    authorization_header: '',
    active,
    updated_at: wholeSeconds(updatedAt),
    created_at: wholeSeconds(createdAt),
  }
}

/** Returns webhooks in the given order. One look-up reads all configurations. */
export async function hookWires(
  { secrets }: Pick<Services, 'secrets'>,
  hooks: readonly WebhookDocument[],
): Promise<Static<typeof HookWire>[]> {
  const configs = await webhookConfigsOf(
    secrets,
    hooks.map(({ configId }) => configId),
  )
  return hooks.map((hook) => hookWire(hook, configs.get(hook.configId)))
}

/**
 * Returns the owner of the webhooks in the request's path. Requires an admin of the repository or organization, the user,
 * or a site admin for webhooks of the site. @throws Refused
 */
export async function webhookScopeFor(
  services: Services,
  request: FastifyRequest,
  path: { owner?: string; repo?: string; org?: string; id?: string },
  url: (typeof WEBHOOK_OWNERS)[number]['url'],
): Promise<WebhookScope> {
  const { requester } = request
  switch (url) {
    case '/repos/:owner/:repo/hooks': {
      const { owner = '', repo = '' } = path
      const { repository } = await repositoryAt(services, requester, { owner, repo }, 'admin')
      request.repositoryId = repository.id
      return { kind: 'repository', repoId: repository.id }
    }
    case '/orgs/:org/hooks': {
      const organization = await organizationFor(services, request, path.org ?? '')
      const { siteAdmin, memberships } = signedIn(request)
      if (!siteAdmin && memberships[`${organization.id}`] !== 'admin') {
        throw new Refused(refuse.forbidden('only admins of the organization may see and change its webhooks'))
      }
      return { kind: 'owner', ownerId: organization.id }
    }
    case '/user/hooks':
      return { kind: 'owner', ownerId: signedIn(request).id }
    case '/admin/hooks':
      siteAdmin(request, 'see and change the webhooks of the site')
      return { kind: 'site' }
  }
}

/** Returns the id in a path. @throws Refused (not found) when it is not a number */
export function webhookIdOf(id: string): number {
  const number = pathNumber(id)
  if (number === undefined) throw new Refused(refuse.notFound('webhook not found'))
  return number
}

/** Returns the owner's webhook with that id. @throws Refused (not found) */
export async function webhookFor(
  { views }: Pick<Services, 'views'>,
  scope: WebhookScope,
  id: string,
): Promise<WebhookDocument> {
  const hook = await views.webhooks.get(`${webhookIdOf(id)}`)
  if (hook?.scopeKey !== webhookScopeKey(scope)) throw notFoundIn(views.webhooks, 'webhook not found')
  return hook
}

/** Returns the value of the header `X-Gitea-Event`. Several kinds of events share one. */
export function eventHeaderOf(event: HookEvent): string {
  switch (event) {
    case 'issue_assign':
    case 'issue_label':
    case 'issue_milestone':
      return 'issues'
    case 'pull_request_assign':
    case 'pull_request_label':
    case 'pull_request_milestone':
    case 'pull_request_sync':
    case 'pull_request_review_request':
      return 'pull_request'
    case 'pull_request_comment':
      return 'issue_comment'
    case 'pull_request_review_approved':
      return 'pull_request_approved'
    case 'pull_request_review_rejected':
      return 'pull_request_rejected'
    case 'pull_request_review_comment':
      return 'pull_request_comment'
    default:
      return event
  }
}

export const DeliveryWire = Type.Object(
  {
    guid: Type.String({ description: 'UUID of the delivery, sent as `X-Gitea-Delivery`' }),
    event: Type.String({ description: 'Event, sent as `X-Gitea-Event`' }),
    event_type: Type.String({ description: 'Kind of the event, sent as `X-Gitea-Event-Type`' }),
    status: Type.Enum(['waiting', 'delivered', 'failed']),
    status_code: Type.Integer({ description: 'HTTP status of the last answer; 0 without one' }),
    problem: Type.String({ description: 'Error of the last attempt; empty after a success' }),
    attempts: Type.Integer(),
    duration_ms: Type.Integer({ description: 'Duration of the last attempt, in milliseconds' }),
    created_at: Type.String(),
    tried_at: Nullable(Type.String()),
    next_try_at: Nullable(Type.String()),
  },
  { title: 'HookDelivery' },
)

const secondsOf = (ms: number) => wholeSeconds(new Date(ms).toISOString())

/** Returns a delivery, without the request and the answer: they are not stored, because they may contain erased texts. */
export function deliveryWire(delivery: WebhookDelivery): Static<typeof DeliveryWire> {
  const { id, event, state, statusCode, problem, attempts, durationMs, at, triedAt, notBefore } = delivery
  return {
    guid: id,
    event: eventHeaderOf(event),
    event_type: event,
    status: state,
    status_code: statusCode,
    problem,
    attempts,
    duration_ms: durationMs,
    created_at: secondsOf(at),
    tried_at: triedAt === null ? null : secondsOf(triedAt),
    next_try_at: state === 'waiting' ? secondsOf(Math.max(notBefore, at)) : null,
  }
}
