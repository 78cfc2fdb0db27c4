/** Parses the settings of a branch protection and checks their limits. */
import { isDeepStrictEqual } from 'node:util'
import { type Static, Type } from 'typebox'
import { globProblem, isPattern } from '../../../access/glob.ts'
import { NO_REVIEW_RULES, reviewRulesOf } from '../../../access/review-rules.ts'
import { NEUTRAL, ProtectionFields } from '../../../api/branches/branch-protections.ts'
import { teamsNamed } from '../../../api/organizations/team-paths.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import type { ReviewRules } from '../../../events/catalog/branches.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../../services/services.ts'
import type { ProtectionSettings } from './protections.decider.ts'

export const ProtectionOptions = Type.Partial(Type.Object(ProtectionFields), {
  title: 'EditBranchProtectionOption',
})

/** `rule_name`, or its older name `branch_name`, is required. */
export const CreateProtectionOptions = Type.Partial(
  Type.Object({ rule_name: Type.String(), branch_name: Type.String(), ...ProtectionFields }),
  { title: 'CreateBranchProtectionOption' },
)

type Options = Static<typeof ProtectionOptions>

const MAX_RULE_LENGTH = 255
const MAX_NAMES = 100
/**
 * Maximum length of all patterns in the contexts of a rule, in characters: each is matched with all statuses of a
 * commit.
 */
const MAX_CONTEXT_PATTERNS_LENGTH = 500

/** Defaults of a new rule: pushes are forbidden, writers merge. */
export const NEW_PROTECTION: Omit<ProtectionSettings, 'rule'> = {
  priority: 0,
  push: false,
  pushers: null,
  mergers: null,
  statusCheck: false,
  contexts: [],
  requireSigned: false,
  blockOutdated: false,
  blockAdminOverride: false,
}

/** Maximum number of required approvals: more than the reviewers of a repository would block every merge. */
const MAX_APPROVALS = 100

function unprocessable(problem: string): Refused {
  return new Refused(refuse.unprocessable(problem))
}

/** Returns the branch name or pattern of a rule. @throws Refused (unprocessable) */
export function ruleOf(body: { rule_name?: string; branch_name?: string }): string {
  const [field, rule] =
    body.rule_name === undefined || body.rule_name === ''
      ? ['branch_name', body.branch_name ?? '']
      : ['rule_name', body.rule_name]
  if (rule === '') throw unprocessable('rule_name: must not be empty')
  if (rule.length > MAX_RULE_LENGTH)
    throw unprocessable(`${field}: has more than ${MAX_RULE_LENGTH} characters`)
  const problem = globProblem(rule)
  if (problem !== undefined) throw unprocessable(`${field}: ${problem}`)
  return rule
}

/** Rejects options that this server does not enforce, instead of ignoring them. */
function requireEnforced(options: Options): void {
  for (const [field, neutral] of Object.entries(NEUTRAL)) {
    const wanted: unknown = Reflect.get(options, field)
    if (wanted !== undefined && JSON.stringify(wanted) !== JSON.stringify(neutral)) {
      throw unprocessable(`${field}: is not supported, only ${JSON.stringify(neutral)} is`)
    }
  }
}

function requireContexts(contexts: readonly string[]): void {
  const field = 'status_check_contexts'
  if (contexts.length > MAX_NAMES) throw unprocessable(`${field}: has more than ${MAX_NAMES} contexts`)
  let length = 0
  for (const context of contexts) {
    if (context.length > MAX_RULE_LENGTH) {
      throw unprocessable(`${field}: a context has at most ${MAX_RULE_LENGTH} characters`)
    }
    const problem = globProblem(context)
    if (problem !== undefined) throw unprocessable(`${field}: ${JSON.stringify(context)} ${problem}`)
    if (isPattern(context)) length += context.length
  }
  if (length > MAX_CONTEXT_PATTERNS_LENGTH) {
    throw unprocessable(
      `${field}: its patterns together can have at most ${MAX_CONTEXT_PATTERNS_LENGTH} characters`,
    )
  }
}

/** The ids of the users and teams in a whitelist; undefined when the request omits it. */
interface Named {
  users: number[] | undefined
  teams: number[] | undefined
}

/** The whitelists in a request. */
interface NamedIn {
  push: Named
  merge: Named
  approvals: Named
}

/**
 * Returns the ids on a whitelist; for users null when it is disabled. Names on a disabled whitelist would have no
 * effect, so they are rejected.
 */
function whitelistOf(
  before: { users: number[] | null; teams: number[] | undefined },
  field: keyof NamedIn,
  enable: boolean | undefined,
  named: Named,
): { users: number[] | null; teams: number[] } {
  if (enable ?? before.users !== null) {
    return { users: named.users ?? before.users ?? [], teams: named.teams ?? before.teams ?? [] }
  }
  for (const [given, name] of [
    [named.users, FIELDS[field].users],
    [named.teams, FIELDS[field].teams],
  ] as const) {
    if (given !== undefined && given.length > 0)
      throw unprocessable(`${name}: needs enable_${field}_whitelist`)
  }
  return { users: null, teams: [] }
}

/** Field names of each whitelist. */
const FIELDS = {
  push: { users: 'push_whitelist_usernames', teams: 'push_whitelist_teams' },
  merge: { users: 'merge_whitelist_usernames', teams: 'merge_whitelist_teams' },
  approvals: { users: 'approvals_whitelist_username', teams: 'approvals_whitelist_teams' },
} as const satisfies Record<keyof NamedIn, Record<keyof Named, keyof Options>>

/**
 * Returns the review rules with the options applied; undefined when nothing is required. @throws Refused
 * (unprocessable)
 */
function withReviewOptions(before: ReviewRules, options: Options, named: Named): ReviewRules | undefined {
  const required = options.required_approvals ?? before.required
  if (required < 0 || required > MAX_APPROVALS) {
    throw unprocessable(`required_approvals: must be from 0 to ${MAX_APPROVALS}`)
  }
  const approvers = whitelistOf(
    { users: before.approvers, teams: before.approverTeams },
    'approvals',
    options.enable_approvals_whitelist,
    named,
  )
  const rules = {
    required,
    approvers: approvers.users,
    ...(approvers.teams.length > 0 && { approverTeams: approvers.teams }),
    blockOnRejected: options.block_on_rejected_reviews ?? before.blockOnRejected,
    blockOnRequests: options.block_on_official_review_requests ?? before.blockOnRequests,
    dismissStale: options.dismiss_stale_approvals ?? before.dismissStale,
    ignoreStale: options.ignore_stale_approvals ?? before.ignoreStale,
  }
  return isDeepStrictEqual(rules, NO_REVIEW_RULES) ? undefined : rules
}

/** Returns the settings with the options applied. @throws Refused for contradictory options */
export function withOptions(
  before: ProtectionSettings,
  options: Options,
  named: NamedIn,
): ProtectionSettings {
  const push = options.enable_push ?? before.push
  const reviews = withReviewOptions(reviewRulesOf(before), options, named.approvals)
  // A whitelist of pushers needs pushes.
  const isListed = push && options.enable_push_whitelist
  const pushing = { users: before.pushers, teams: before.pusherTeams }
  const pushers = whitelistOf(pushing, 'push', isListed, named.push)
  const merging = { users: before.mergers, teams: before.mergerTeams }
  const mergers = whitelistOf(merging, 'merge', options.enable_merge_whitelist, named.merge)
  return {
    rule: before.rule,
    priority: options.priority ?? before.priority,
    push,
    pushers: pushers.users,
    ...(pushers.teams.length > 0 && { pusherTeams: pushers.teams }),
    mergers: mergers.users,
    ...(mergers.teams.length > 0 && { mergerTeams: mergers.teams }),
    statusCheck: options.enable_status_check ?? before.statusCheck,
    contexts: [...new Set(options.status_check_contexts ?? before.contexts)],
    requireSigned: options.require_signed_commits ?? before.requireSigned,
    blockOutdated: options.block_on_outdated_branch ?? before.blockOutdated,
    blockAdminOverride: options.block_admin_merge_override ?? before.blockAdminOverride,
    ...(reviews !== undefined && { reviews }),
  }
}

/** Returns the ids of the named users. @throws Refused (unprocessable) for too many, or an unknown one */
export async function userIdsNamed(
  { views }: Services,
  field: string,
  logins: readonly string[] | undefined,
): Promise<number[] | undefined> {
  if (logins === undefined) return undefined
  if (logins.length > MAX_NAMES) throw unprocessable(`${field}: has more than ${MAX_NAMES} users`)
  const keys = [...new Set(logins.map((login) => login.toLowerCase()))]
  const found = keys.length === 0 ? [] : await views.accounts.find({ loginKey: { $in: keys } })
  const ids = new Map(
    found.flatMap(({ kind, login, id }) => (kind === 'user' ? [[login.toLowerCase(), id]] : [])),
  )
  return keys.map((key) => {
    const id = ids.get(key)
    if (id === undefined) throw unprocessable(`${field}: user "${key}" does not exist`)
    return id
  })
}

/**
 * Returns the ids of the named teams of the organization that owns the repository.
 * @throws Refused (unprocessable) for too many, an unknown one, or a repository of a user
 */
export async function teamIdsNamed(
  services: Services,
  repository: RepositoryDocument,
  field: string,
  names: readonly string[] | undefined,
): Promise<number[] | undefined> {
  if (names === undefined) return undefined
  if (names.length > MAX_NAMES) throw unprocessable(`${field}: has more than ${MAX_NAMES} teams`)
  const { teams, unknown } = await teamsNamed(services, repository, field, names)
  if (unknown !== undefined) throw unprocessable(`${field}: team "${unknown}" does not exist`)
  return teams.map((team) => (team.kind === 'owners' ? repository.ownerId : team.team.id))
}

/** Checks the options that do not depend on other settings. Resolves to the named users and teams. */
export async function checkOptions(
  services: Services,
  repository: RepositoryDocument,
  options: Options,
): Promise<NamedIn> {
  requireEnforced(options)
  requireContexts(options.status_check_contexts ?? [])
  const namedIn = async (whitelist: keyof NamedIn): Promise<Named> => {
    const { users, teams } = FIELDS[whitelist]
    return {
      users: await userIdsNamed(services, users, options[users]),
      teams: await teamIdsNamed(services, repository, teams, options[teams]),
    }
  }
  return { push: await namedIn('push'), merge: await namedIn('merge'), approvals: await namedIn('approvals') }
}
