/** Webhooks. Their URLs and secrets are in the secret store. */

import type { HookType, WebhookScope, WebhookSettings } from '../../../events/catalog/webhooks.ts'
import type { Position } from '../../../events/store/event-store.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface WebhookDocument extends WebhookSettings {
  id: number
  type: HookType
  scope: WebhookScope
  /** Look-up key of the webhooks of a repository, an account or the site. */
  scopeKey: string
  /** Position of its creation. It gets only later events. */
  madeAt: Position
  createdAt: string
  updatedAt: string
}

export function webhookScopeKey(scope: WebhookScope): string {
  switch (scope.kind) {
    case 'repository':
      return `repository-${scope.repoId}`
    case 'owner':
      return `owner-${scope.ownerId}`
    case 'site':
      return 'site'
  }
}

export const webhookFold: Fold<WebhookDocument> = foldOf({
  name: 'webhooks',
  indexes: [{ scopeKey: 1, id: 1 }],
  version: 2,
  ids: ({ data }) => [`${data.id}`],
  becomes: {
    WebhookCreated(_, { data, position, metadata: { at } }) {
      const { id, type, scope, contentType, events, branchFilter, active, origin, configId } = data
      return {
        id,
        type,
        scope,
        scopeKey: webhookScopeKey(scope),
        contentType,
        events,
        branchFilter,
        active,
        origin,
        configId,
        madeAt: position,
        createdAt: at,
        updatedAt: at,
      }
    },
    WebhookDeleted: () => undefined,
  },
  begins: ['WebhookCreated'],
  changes: { WebhookEdited: (_, { data, metadata: { at } }) => ({ ...data.changes, updatedAt: at }) },
})
