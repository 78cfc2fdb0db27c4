/** Random commands to webhooks. */
import fc from 'fast-check'
import {
  decideCreateWebhook,
  decideDeleteWebhook,
  decideEditWebhook,
  decideTestWebhook,
} from '../../src/commands/webhooks/webhook.decider.ts'
import type { WebhookScope } from '../../src/events/catalog/webhooks.ts'
import { ACME, by, command, mostly, oneOf, partial, record, SHAS } from './values.ts'

const scopeOf = (id: number): WebhookScope => {
  if (id === 3) return { kind: 'site' }
  return id === 2 ? { kind: 'owner', ownerId: ACME.id } : { kind: 'repository', repoId: id }
}

const configId = oneOf(['one', 'two', 'three'])

export const webhookCommand = command(
  'webhook',
  record({
    id: oneOf([1, 2, 3]),
    ownScope: mostly,
    by,
    what: oneOf(['create', 'edit', 'edit', 'test', 'delete']),
    expected: configId,
    wanted: partial({
      contentType: oneOf(['json', 'form'] as const),
      events: oneOf([['push'], ['issues', 'push']] as const).map((events) => [...events]),
      branchFilter: oneOf(['', 'main']),
      active: fc.boolean(),
      origin: oneOf(['https://one.example.org', 'https://two.example.org']),
      configId,
    }),
  }),
  (world, { id, ownScope, by, what, expected, wanted }) => {
    const scope = scopeOf(ownScope || what === 'create' ? id : (id % 3) + 1)
    world.webhooks.change(id, by, (state) => {
      switch (what) {
        case 'create': {
          const settings = { contentType: 'json', events: ['push'], branchFilter: '', active: true } as const
          const place = { origin: 'https://one.example.org', configId: expected }
          const { events } = settings
          return decideCreateWebhook(state, {
            id,
            scope,
            type: 'gitea',
            ...settings,
            ...place,
            events: [...events],
          })
        }
        case 'edit':
          return decideEditWebhook(state, scope, expected, wanted)
        case 'test':
          return decideTestWebhook(state, scope, { repoId: 1, branch: 'main', sha: SHAS[0] ?? '' })
        case 'delete':
          return decideDeleteWebhook(state, scope)
      }
    })
  },
)
