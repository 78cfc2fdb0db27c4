/** The events about webhooks, in the streams `webhook-<id>`. Where a hook sends to, and its secrets, are not in the log. */

/** Whose events a hook gets: those of one repository, of all repositories of an account, or of all. */
export type WebhookScope =
  | { kind: 'repository'; repoId: number }
  | { kind: 'owner'; ownerId: number }
  | { kind: 'site' }

/** What a hook can be for. The names are Gitea's. Some are of things that this server does not have: they never happen. */
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

/** What a delivery's body is: the JSON, or a form with it in the field `payload`. */
export const HOOK_CONTENT_TYPES = ['json', 'form'] as const
export type HookContentType = (typeof HOOK_CONTENT_TYPES)[number]

export interface WebhookSettings {
  contentType: HookContentType
  /** In the order of `HOOK_EVENTS`. */
  events: HookEvent[]
  /** A pattern of branch names; empty for all branches. */
  branchFilter: string
  active: boolean
  /** The origin of its URL: `https://ci.example.org`. The rest of a URL is often a secret. */
  origin: string
  /** The id under which the store of the secrets has its URL, its secret and its header. */
  configId: string
}

interface WebhookData {
  id: number
  scope: WebhookScope
}

export type WebhookEvent =
  | { type: 'WebhookCreated'; data: WebhookData & WebhookSettings & { type: HookType } }
  | {
      type: 'WebhookEdited'
      data: WebhookData & {
        changes: Partial<WebhookSettings>
        /** What the store of the secrets need not keep any more. */
        replacedConfigId?: string
      }
    }
  | { type: 'WebhookDeleted'; data: WebhookData & { configId: string } }
  /** Somebody wants a push of this commit delivered, to see whether the hook works. */
  | { type: 'WebhookTested'; data: WebhookData & { repoId: number; branch: string; sha: string } }
