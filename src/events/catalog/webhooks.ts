/** `webhook-<id>`. URLs and secrets of hooks are not in the log. */
import { type Static, Type } from 'typebox'
import { Changes, type EventsOf, Flag, Text, Whole } from './parts.ts'

/** Scope of a hook: one repository, all repositories of an account, or the whole server. */
const WebhookScope = Type.Union([
  Type.Object({ kind: Type.Literal('repository'), repoId: Whole }),
  Type.Object({ kind: Type.Literal('owner'), ownerId: Whole }),
  Type.Object({ kind: Type.Literal('site') }),
])
export type WebhookScope = Static<typeof WebhookScope>

/** Event names of hooks, as in Gitea. Those of missing features never happen. */
export const HOOK_EVENTS = [
  'create',
  'delete',
  'fork',
  'push',
  'issues',
  'issue_assign',
  'issue_label',
  'issue_milestone',
  'issue_comment',
  'pull_request',
  'pull_request_assign',
  'pull_request_label',
  'pull_request_milestone',
  'pull_request_comment',
  'pull_request_review_approved',
  'pull_request_review_rejected',
  'pull_request_review_comment',
  'pull_request_sync',
  'pull_request_review_request',
  'wiki',
  'repository',
  'release',
  'package',
  'status',
  'workflow_run',
  'workflow_job',
] as const
export type HookEvent = (typeof HOOK_EVENTS)[number]

export const HOOK_TYPES = ['gitea', 'gogs'] as const
export type HookType = (typeof HOOK_TYPES)[number]

/** Body format of a delivery: JSON, or a form with it in the field `payload`. */
export const HOOK_CONTENT_TYPES = ['json', 'form'] as const
export type HookContentType = (typeof HOOK_CONTENT_TYPES)[number]

const WebhookSettings = Type.Object({
  contentType: Type.Enum([...HOOK_CONTENT_TYPES]),
  /** In the order of `HOOK_EVENTS`. */
  events: Type.Array(Type.Enum([...HOOK_EVENTS])),
  /** A pattern of branch names; empty for all branches. */
  branchFilter: Text,
  active: Flag,
  /** The origin of its URL: `https://ci.example.org`. Other parts of a URL are often secret. */
  origin: Text,
  /** Id of its URL, secret and header in the secret store. */
  configId: Text,
})
export type WebhookSettings = Static<typeof WebhookSettings>

const ofWebhook = { id: Whole, scope: WebhookScope }

export const webhookEvents = {
  WebhookCreated: Type.Object({
    ...ofWebhook,
    ...WebhookSettings.properties,
    type: Type.Enum([...HOOK_TYPES]),
  }),
  WebhookEdited: Type.Object({
    ...ofWebhook,
    changes: Changes(WebhookSettings.properties),
    /** Id of a secret that can be deleted. */
    replacedConfigId: Type.Optional(Text),
  }),
  WebhookDeleted: Type.Object({ ...ofWebhook, configId: Text }),
  /** A test delivery of a push of this commit was requested. */
  WebhookTested: Type.Object({ ...ofWebhook, repoId: Whole, branch: Text, sha: Text }),
}
export type WebhookEvent = EventsOf<typeof webhookEvents>
