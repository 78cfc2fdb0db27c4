/** Decisions of the repository aggregate on its branch protections. Pure. */
import { isDeepStrictEqual } from 'node:util'
import { isPattern } from '../../../access/glob.ts'
import { refuse } from '../../../errors/refusal.ts'
import type { BranchProtection } from '../../../events/catalog/branches.ts'
import type { RepositoryEvent } from '../../../events/catalog/repositories.ts'
import type { Decision } from '../../execution/decider.ts'
import type { RepositoryState } from '../../repositories/repository.decider.ts'

export type ProtectionSettings = Omit<BranchProtection, 'id' | 'createdAt' | 'updatedAt'>

export const MAX_RULES = 200
/** Maximum length of all rules as JSON, in characters: each read of the repository reads them. */
const MAX_RULES_LENGTH = 200_000
/**
 * Maximum length of all patterns, in characters: a list matches each branch of a page with each pattern in one tick.
 */
const MAX_PATTERNS_LENGTH = 1000

const gone = refuse.notFound('repository not found')
const unknown = refuse.notFound('branch protection not found')

/** Adds a rule. Priority 0 sorts it last, as in Gitea. */
export function decideAddProtection(
  state: RepositoryState,
  id: number,
  settings: ProtectionSettings,
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { protections } = state
  if (protections.some(({ rule }) => rule === settings.rule)) {
    return refuse.forbidden(`branch protection "${settings.rule}" already exists`)
  }
  if (protections.length >= MAX_RULES) {
    return refuse.unprocessable(`a repository can have at most ${MAX_RULES} branch protections`)
  }
  const last = Math.max(0, ...protections.map(({ priority }) => priority))
  const priority = settings.priority === 0 ? last + 1 : settings.priority
  return setProtection(state.id, protections, { id, ...settings, priority, createdAt: at, updatedAt: at })
}

/** Changes a rule; no event without a change. `edit` returns the new settings. */
export function decideEditProtection(
  state: RepositoryState,
  rule: string,
  edit: (protection: BranchProtection) => ProtectionSettings,
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const before = state.protections.find((protection) => protection.rule === rule)
  if (before === undefined) return unknown
  const { id, createdAt, updatedAt } = before
  const after = { id, ...edit(before), rule }
  if (isDeepStrictEqual({ ...after, createdAt, updatedAt }, before)) return []
  return setProtection(state.id, state.protections, { ...after, createdAt, updatedAt: at })
}

/** Sets the priorities 1, 2, … of these rules in this order; others keep theirs, as in Gitea. */
export function decideOrderProtections(
  state: RepositoryState,
  ids: readonly number[],
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const rules = new Map(state.protections.map((protection) => [protection.id, protection]))
  const unknown = ids.filter((id) => !rules.has(id)).map((id) => `ids: no branch protection has the id ${id}`)
  const twice = new Set(ids).size < ids.length ? ['ids: a branch protection is named twice'] : []
  const errors = [...unknown, ...twice]
  if (errors.length > 0) return refuse.unprocessable(errors.join('; '), errors)
  return ids.flatMap((id, index): RepositoryEvent[] => {
    const before = rules.get(id)
    const priority = index + 1
    if (before === undefined || before.priority === priority) return []
    const protection = { ...before, priority, updatedAt: at }
    return [{ type: 'BranchProtectionSet', data: { repoId: state.id, protection } }]
  })
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
    return refuse.unprocessable('the branch protections of the repository together are too large')
  }
  const patterns = all.map(({ rule }) => rule).filter(isPattern)
  if (patterns.reduce((length, pattern) => length + pattern.length, 0) > MAX_PATTERNS_LENGTH) {
    return refuse.unprocessable(
      `rule_name: all patterns of a repository together can have at most ${MAX_PATTERNS_LENGTH} characters`,
    )
  }
  return [{ type: 'BranchProtectionSet', data: { repoId, protection } }]
}
