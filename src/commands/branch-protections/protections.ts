/** Which branch protections a repository may have: decisions of the repository aggregate. Pure. */
import type { BranchProtection, RepositoryEvent } from '../../events/domain-events.ts'
import { refuse } from '../../refusal.ts'
import { isPattern } from '../../rights/glob.ts'
import type { Decision } from '../execute.ts'
import type { RepositoryState } from '../repositories/repository.ts'

export type ProtectionSettings = Omit<BranchProtection, 'createdAt' | 'updatedAt'>

export const MAX_RULES = 200
/** Every read of the repository reads its rules. Characters of JSON. */
const MAX_RULES_LENGTH = 200_000
/** A list of branches matches each of a page against every pattern, and nothing else runs meanwhile. */
const MAX_PATTERNS_LENGTH = 1000

const gone = refuse.notFound('repository not found')
const unknown = refuse.notFound('there is no branch protection of that name')

/** A priority of 0 comes behind all others, as in Gitea. */
export function decideAddProtection(
  state: RepositoryState,
  settings: ProtectionSettings,
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { protections } = state
  if (protections.some(({ rule }) => rule === settings.rule)) {
    return refuse.forbidden(`branch protection "${settings.rule}" already exists`)
  }
  if (protections.length >= MAX_RULES) {
    return refuse.unprocessable(`a repository has ${MAX_RULES} branch protections at most`)
  }
  const last = Math.max(0, ...protections.map(({ priority }) => priority))
  const priority = settings.priority === 0 ? last + 1 : settings.priority
  return setProtection(state.id, protections, { ...settings, priority, createdAt: at, updatedAt: at })
}

/** An edit that changes nothing is no event. `edit` makes the new settings from those that there are. */
export function decideEditProtection(
  state: RepositoryState,
  rule: string,
  edit: (protection: BranchProtection) => ProtectionSettings,
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const before = state.protections.find((protection) => protection.rule === rule)
  if (before === undefined) return unknown
  const { createdAt, updatedAt } = before
  const after = { ...edit(before), rule }
  if (JSON.stringify({ ...before, ...after, updatedAt }) === JSON.stringify(before)) return []
  return setProtection(state.id, state.protections, { ...after, createdAt, updatedAt: at })
}

export function decideRemoveProtection(state: RepositoryState, rule: string): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  if (!state.protections.some((protection) => protection.rule === rule)) return unknown
  return [{ type: 'BranchProtectionRemoved', data: { repoId: state.id, rule } }]
}

function setProtection(
  repoId: number,
  protections: readonly BranchProtection[],
  protection: BranchProtection,
): Decision<RepositoryEvent> {
  const all = [...protections.filter(({ rule }) => rule !== protection.rule), protection]
  if (JSON.stringify(all).length > MAX_RULES_LENGTH) {
    return refuse.unprocessable('the branch protections of the repository are too large together')
  }
  const patterns = all.map(({ rule }) => rule).filter(isPattern)
  if (patterns.reduce((length, pattern) => length + pattern.length, 0) > MAX_PATTERNS_LENGTH) {
    return refuse.unprocessable(
      `rule_name: the patterns of a repository have ${MAX_PATTERNS_LENGTH} characters together at most`,
    )
  }
  return [{ type: 'BranchProtectionSet', data: { repoId, protection } }]
}
