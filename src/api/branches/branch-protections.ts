/** Branch protections on the wire, and the look-up of the protection in a path. */
import { type Static, Type } from 'typebox'
import { reviewRulesOf } from '../../access/review-rules.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { BranchProtection, ReviewRules } from '../../events/catalog/branches.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { teamNames } from '../organizations/team-paths.ts'

/** `*`: the name of the rule, which may contain slashes. */
export const ProtectionParams = Type.Object({ owner: Type.String(), repo: Type.String(), '*': Type.String() })

const Names = Type.Array(Type.String())

/** The enforced settings. */
const ENFORCED = {
  priority: Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
  enable_push: Type.Boolean(),
  enable_push_whitelist: Type.Boolean(),
  push_whitelist_usernames: Names,
  push_whitelist_teams: Names,
  enable_merge_whitelist: Type.Boolean(),
  merge_whitelist_usernames: Names,
  merge_whitelist_teams: Names,
  enable_status_check: Type.Boolean(),
  status_check_contexts: Names,
  require_signed_commits: Type.Boolean(),
  block_on_outdated_branch: Type.Boolean(),
  block_admin_merge_override: Type.Boolean(),
  required_approvals: Type.Integer(),
  enable_approvals_whitelist: Type.Boolean(),
  approvals_whitelist_username: Names,
  approvals_whitelist_teams: Names,
  block_on_rejected_reviews: Type.Boolean(),
  block_on_official_review_requests: Type.Boolean(),
  dismiss_stale_approvals: Type.Boolean(),
  ignore_stale_approvals: Type.Boolean(),
}

/** Gitea's settings that are not enforced: each always has its neutral value. */
const NOT_ENFORCED = {
  push_whitelist_deploy_keys: Type.Boolean(),
  enable_force_push: Type.Boolean(),
  enable_force_push_allowlist: Type.Boolean(),
  force_push_allowlist_usernames: Names,
  force_push_allowlist_teams: Names,
  force_push_allowlist_deploy_keys: Type.Boolean(),
  protected_file_patterns: Type.String(),
  unprotected_file_patterns: Type.String(),
}

/** The settings of a rule, in answers and in requests. */
export const ProtectionFields = { ...ENFORCED, ...NOT_ENFORCED }

export const BranchProtectionWire = Type.Object(
  {
    id: Type.Integer({ description: 'Id for the order of priorities; Gitea has none' }),
    rule_name: Type.String(),
    branch_name: Type.String(),
    ...ProtectionFields,
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'BranchProtection' },
)

/** The neutral values of the settings that are not enforced: empty, false or 0. */
export const NEUTRAL = {
  push_whitelist_deploy_keys: false,
  enable_force_push: false,
  enable_force_push_allowlist: false,
  force_push_allowlist_usernames: [],
  force_push_allowlist_teams: [],
  force_push_allowlist_deploy_keys: false,
  protected_file_patterns: '',
  unprotected_file_patterns: '',
} satisfies { [Name in keyof typeof NOT_ENFORCED]: Static<(typeof NOT_ENFORCED)[Name]> }

/** Returns rules as Gitea's `BranchProtection`. One look-up reads all named users, and one all teams. */
export async function protectionWires(
  services: Services,
  repository: RepositoryDocument,
  protections: readonly BranchProtection[],
): Promise<Static<typeof BranchProtectionWire>[]> {
  const ids = new Set(
    protections.flatMap((protection) => {
      const { pushers, mergers } = protection
      return [pushers, mergers, reviewRulesOf(protection).approvers].flatMap((users) => users ?? [])
    }),
  )
  const teamIds = protections.flatMap((protection) => {
    const { pusherTeams = [], mergerTeams = [] } = protection
    return [...pusherTeams, ...mergerTeams, ...(reviewRulesOf(protection).approverTeams ?? [])]
  })
  const [accounts, teams] = await Promise.all([
    services.views.accounts.getMany([...ids].map(String)),
    teamNames(services, repository, teamIds),
  ])
  const teamsOf = (named: readonly number[] = []) => named.flatMap((id) => teams.get(id) ?? [])
  const logins = new Map(accounts.map(({ id, login }) => [id, login]))
  const namesOf = (users: readonly number[] | null) =>
    (users ?? []).map((id) => logins.get(id)).filter((login) => login !== undefined)
  return protections.map((protection) => ({
    id: protection.id,
    rule_name: protection.rule,
    branch_name: protection.rule,
    priority: protection.priority,
    enable_push: protection.push,
    enable_push_whitelist: protection.pushers !== null,
    push_whitelist_usernames: namesOf(protection.pushers),
    push_whitelist_teams: teamsOf(protection.pusherTeams),
    enable_merge_whitelist: protection.mergers !== null,
    merge_whitelist_usernames: namesOf(protection.mergers),
    merge_whitelist_teams: teamsOf(protection.mergerTeams),
    enable_status_check: protection.statusCheck,
    status_check_contexts: protection.contexts,
    require_signed_commits: protection.requireSigned,
    block_on_outdated_branch: protection.blockOutdated,
    block_admin_merge_override: protection.blockAdminOverride,
    ...reviewFields(reviewRulesOf(protection), namesOf),
    approvals_whitelist_teams: teamsOf(reviewRulesOf(protection).approverTeams),
    ...NEUTRAL,
    created_at: wholeSeconds(protection.createdAt),
    updated_at: wholeSeconds(protection.updatedAt),
  }))
}

function reviewFields(rules: ReviewRules, namesOf: (users: readonly number[] | null) => string[]) {
  return {
    required_approvals: rules.required,
    enable_approvals_whitelist: rules.approvers !== null,
    approvals_whitelist_username: namesOf(rules.approvers),
    block_on_rejected_reviews: rules.blockOnRejected,
    block_on_official_review_requests: rules.blockOnRequests,
    dismiss_stale_approvals: rules.dismissStale,
    ignore_stale_approvals: rules.ignoreStale,
  }
}

const unknown = refuse.notFound('branch protection not found')

/** Returns the rule with exactly that name. @throws Refused (not found) */
export function protectionNamed({ protections }: RepositoryDocument, rule: string): BranchProtection {
  const named = protections.find((protection) => protection.rule === rule)
  if (named === undefined) throw new Refused(unknown)
  return named
}

/** Returns one rule as Gitea's `BranchProtection`. @throws Refused (not found) when it is undefined */
export async function protectionWire(
  services: Services,
  repository: RepositoryDocument,
  protection: BranchProtection | undefined,
): Promise<Static<typeof BranchProtectionWire>> {
  const [wire] = protection === undefined ? [] : await protectionWires(services, repository, [protection])
  if (wire === undefined) throw new Refused(unknown)
  return wire
}
