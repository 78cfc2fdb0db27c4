/** Parses the settings of a webhook from Gitea's body fields, and checks their limits. */
import { type Static, Type } from 'typebox'
import { globProblem } from '../../access/glob.ts'
import type { WebhookConfig } from '../../auth/webhook-configs.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import {
  HOOK_CONTENT_TYPES,
  HOOK_EVENTS,
  HOOK_TYPES,
  type HookEvent,
  type HookType,
  type WebhookSettings,
} from '../../events/catalog/webhooks.ts'
import type { OutboundHttp } from '../../http/outbound/outbound-http.ts'

const MAX_URL_LENGTH = 2000
const MAX_SECRET_LENGTH = 255
const MAX_HEADER_LENGTH = 2000
const MAX_FILTER_LENGTH = 255

const Events = Type.Array(Type.String({ maxLength: 50 }), { maxItems: 100 })
const Config = Type.Record(Type.String(), Type.String({ maxLength: 4000 }))

/** Null is the same as absent: Go clients send it for a field that does not change. */
export const EditHookOption = Type.Object(
  {
    config: Type.Optional(Config),
    events: Type.Optional(Events),
    branch_filter: Type.Optional(Type.String()),
    authorization_header: Type.Optional(Type.String()),
    active: Type.Optional(Type.Boolean()),
  },
  { title: 'EditHookOption' },
)

export const CreateHookOption = Type.Object(
  {
    ...EditHookOption.properties,
    type: Type.String(),
    config: Config,
  },
  { title: 'CreateHookOption' },
)

type Options = Static<typeof EditHookOption>

function unprocessable(problem: string): Refused {
  return new Refused(refuse.unprocessable(problem))
}

/** Names that stand for several kinds of events, or for one that is named like a group. */
const GROUPS: ReadonlyMap<string, readonly HookEvent[]> = new Map(
  Object.entries<readonly HookEvent[]>({
    issues: ['issues', 'issue_assign', 'issue_label', 'issue_milestone', 'issue_comment'],
    issues_only: ['issues'],
    pull_request: HOOK_EVENTS.filter((name) => name.startsWith('pull_request')),
    pull_request_only: ['pull_request'],
    pull_request_review: HOOK_EVENTS.filter((name) => /^pull_request_review_(?!request)/.test(name)),
    '*': HOOK_EVENTS,
  }),
)

/** Returns the kinds of events of the names, each once, in a fixed order; `push` by default, as in Gitea. */
function eventsOf(names: readonly string[]): HookEvent[] {
  if (names.length === 0) return ['push']
  const meant = names.flatMap((name): readonly HookEvent[] => {
    const known = GROUPS.get(name) ?? HOOK_EVENTS.filter((event) => event === name)
    if (known.length === 0) throw unprocessable(`events: ${JSON.stringify(name)} is not a kind of event`)
    return known
  })
  return HOOK_EVENTS.filter((event) => meant.includes(event))
}

function typeOf(text: string): HookType {
  const type = HOOK_TYPES.find((known) => known === text)
  if (type === undefined)
    throw unprocessable(`type: ${JSON.stringify(text.slice(0, 50))} is not ${HOOK_TYPES.join(' or ')}`)
  return type
}

function contentTypeOf(text: string) {
  const type = HOOK_CONTENT_TYPES.find((known) => known === text)
  if (type === undefined)
    throw unprocessable(`config.content_type: must be ${HOOK_CONTENT_TYPES.join(' or ')}`)
  return type
}

/** Returns the normalized URL. */
function urlOf(text: string, outside: OutboundHttp): URL {
  const url = text.length <= MAX_URL_LENGTH && URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw unprocessable(`config.url: must be an http or https URL of at most ${MAX_URL_LENGTH} characters`)
  }
  const problem = outside.problem(url)
  if (problem !== undefined) throw unprocessable(`config.url: ${problem}`)
  return url
}

function headerOf(text: string): string {
  // Node.js rejects other characters.
  const isHeader = text.length <= MAX_HEADER_LENGTH && /^[\t\x20-\x7e\x80-\xff]*$/.test(text)
  if (!isHeader) throw unprocessable('authorization_header: is too long, or has invalid characters')
  return text
}

function filterOf(text: string): string {
  const problem =
    text.length > MAX_FILTER_LENGTH ? `has more than ${MAX_FILTER_LENGTH} characters` : globProblem(text)
  if (problem !== undefined) throw unprocessable(`branch_filter: ${problem}`)
  return text
}

/** The secret parts of a configuration. */
type Secrets = Pick<WebhookConfig, 'url' | 'secret' | 'authorization'>

/** The changed settings, and the new configuration. */
interface Wanted {
  settings: Partial<Omit<WebhookSettings, 'configId'>>
  config: Secrets
}

/** @throws Refused (unprocessable) for the first invalid field */
export function wantedBy(options: Options, before: Secrets, outside: OutboundHttp): Wanted {
  const { url, content_type, secret = before.secret } = options.config ?? {}
  if (secret.length > MAX_SECRET_LENGTH)
    throw unprocessable(`config.secret: has more than ${MAX_SECRET_LENGTH} characters`)
  const settings: Wanted['settings'] = {}
  if (content_type !== undefined) settings.contentType = contentTypeOf(content_type)
  if (options.events != null) settings.events = eventsOf(options.events)
  if (options.branch_filter != null) settings.branchFilter = filterOf(options.branch_filter)
  if (options.active != null) settings.active = options.active
  const parsed = url === undefined ? undefined : urlOf(url, outside)
  const isOtherOrigin =
    parsed !== undefined && URL.canParse(before.url) && parsed.origin !== new URL(before.url).origin
  if (parsed !== undefined) settings.origin = parsed.origin
  const config = {
    url: parsed?.href ?? before.url,
    secret,
    // The header was meant for the old URL, so a new URL clears it.
    authorization: headerOf(options.authorization_header ?? (isOtherOrigin ? '' : before.authorization)),
  }
  return { settings, config }
}

/** Returns a new webhook. @throws Refused (unprocessable) for the first invalid field */
export function newWebhook(
  options: Static<typeof CreateHookOption>,
  outside: OutboundHttp,
): { settings: Omit<WebhookSettings, 'configId'> & { type: HookType }; config: Secrets } {
  const type = typeOf(options.type)
  for (const name of ['url', 'content_type']) {
    if (options.config[name] === undefined) throw unprocessable(`config.${name}: is required`)
  }
  const { settings, config } = wantedBy(options, { url: '', secret: '', authorization: '' }, outside)
  const {
    contentType = 'json',
    events = eventsOf([]),
    branchFilter = '',
    active = false,
    origin = '',
  } = settings
  return { settings: { type, contentType, events, branchFilter, active, origin }, config }
}

/** Returns the body without secrets, as the input of the Idempotency-Key's digest, which the log keeps. */
export function withoutSecrets({ config, authorization_header: _secret, ...options }: Options): object {
  return { ...options, contentType: config?.content_type }
}
