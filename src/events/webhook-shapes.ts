/** What the data of the events about webhooks looks like, for the check of events as they are read. */
import {
  type Check,
  type Checks,
  flag,
  list,
  object,
  optional,
  partial,
  text,
  whole,
  word,
} from './shapes.ts'
import {
  HOOK_CONTENT_TYPES,
  HOOK_EVENTS,
  HOOK_TYPES,
  type WebhookEvent,
  type WebhookScope,
  type WebhookSettings,
} from './webhook-events.ts'

type DataOf<T extends WebhookEvent['type']> = Extract<WebhookEvent, { type: T }>['data']

const scopes = [
  object<Extract<WebhookScope, { kind: 'repository' }>>({ kind: word('repository'), repoId: whole }),
  object<Extract<WebhookScope, { kind: 'owner' }>>({ kind: word('owner'), ownerId: whole }),
  object<Extract<WebhookScope, { kind: 'site' }>>({ kind: word('site') }),
]
const scope: Check<WebhookScope> = (value) => {
  const problems = scopes.map((check) => check(value))
  return problems.includes(undefined) ? undefined : problems[0]
}

const settings: Checks<WebhookSettings> = {
  contentType: word(...HOOK_CONTENT_TYPES),
  events: list(word(...HOOK_EVENTS)),
  branchFilter: text,
  active: flag,
  origin: text,
  configId: text,
}

const webhook = { id: whole, scope }

export const webhookShapes: { readonly [T in WebhookEvent['type']]: Checks<DataOf<T>> } = {
  WebhookCreated: { ...webhook, ...settings, type: word(...HOOK_TYPES) },
  WebhookEdited: {
    ...webhook,
    changes: partial<WebhookSettings>(settings),
    replacedConfigId: optional(text),
  },
  WebhookDeleted: { ...webhook, configId: text },
  WebhookTested: { ...webhook, repoId: whole, branch: text, sha: text },
}
