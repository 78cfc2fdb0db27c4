/** The webhook aggregate. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { HookType, WebhookEvent, WebhookScope, WebhookSettings } from '../../events/catalog/webhooks.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

export interface Webhook extends WebhookSettings {
  id: number
  type: HookType
  scope: WebhookScope
}

export type WebhookState =
  | { status: 'missing' }
  | { status: 'active'; webhook: Webhook }
  | { status: 'deleted'; webhook: Webhook }

export const webhookDecider: Decider<WebhookState, WebhookEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    WebhookCreated: (_, { data }) => ({ status: 'active', webhook: data }),
    WebhookDeleted: (state) =>
      state.status === 'active' ? { status: 'deleted', webhook: state.webhook } : state,
  },
  exists: (state: WebhookState) => state.status === 'active',
  changes: {
    WebhookEdited: ({ webhook }, { data }) => ({ webhook: { ...webhook, ...data.changes } }),
    WebhookTested: () => ({}),
  },
})

const NOT_FOUND = refuse.notFound('webhook not found')

export function decideCreateWebhook(state: WebhookState, webhook: Webhook): Decision<WebhookEvent> {
  if (state.status !== 'missing') return refuse.conflict(`webhook ${webhook.id} exists already`)
  return [{ type: 'WebhookCreated', data: webhook }]
}

/**
 * Records only changed fields; a webhook of another repository or account is not found. `expected`: the configuration
 * from which the new one was derived.
 */
export function decideEditWebhook(
  state: WebhookState,
  scope: WebhookScope,
  expected: string,
  wanted: Partial<WebhookSettings>,
): Decision<WebhookEvent> {
  if (!isOf(state, scope)) return NOT_FOUND
  const { webhook } = state
  const changes = changedFields<WebhookSettings>(webhook, wanted)
  if (Object.keys(changes).length === 0) return []
  if (changes.configId !== undefined && webhook.configId !== expected) {
    return refuse.conflict('the webhook was changed by another user meanwhile; try again')
  }
  const data = { id: webhook.id, scope: webhook.scope, changes }
  if (changes.configId === undefined) return [{ type: 'WebhookEdited', data }]
  return [{ type: 'WebhookEdited', data: { ...data, replacedConfigId: webhook.configId } }]
}

export function decideDeleteWebhook(state: WebhookState, scope: WebhookScope): Decision<WebhookEvent> {
  if (!isOf(state, scope)) return NOT_FOUND
  const { id, configId } = state.webhook
  return [{ type: 'WebhookDeleted', data: { id, scope: state.webhook.scope, configId } }]
}

/** Requests delivery of a push of this commit. */
export function decideTestWebhook(
  state: WebhookState,
  scope: WebhookScope,
  commit: { repoId: number; branch: string; sha: string },
): Decision<WebhookEvent> {
  if (!isOf(state, scope)) return NOT_FOUND
  return [{ type: 'WebhookTested', data: { id: state.webhook.id, scope: state.webhook.scope, ...commit } }]
}

function isOf(
  state: WebhookState,
  scope: WebhookScope,
): state is Extract<WebhookState, { status: 'active' }> {
  return state.status === 'active' && sameScope(state.webhook.scope, scope)
}

function sameScope(one: WebhookScope, other: WebhookScope): boolean {
  switch (one.kind) {
    case 'repository':
      return other.kind === 'repository' && one.repoId === other.repoId
    case 'owner':
      return other.kind === 'owner' && one.ownerId === other.ownerId
    case 'site':
      return other.kind === 'site'
  }
}
