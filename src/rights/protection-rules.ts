/** What a branch protection means: which rule holds for a branch, who may push and merge, what checks say. Pure. */
import type { BranchProtection, CommitState } from '../events/domain-events.ts'
import { type Access, atLeast } from './access.ts'
import { globMatches, isPattern } from './glob.ts'

/**
 * The rule that holds for a branch: the one with exactly its name, or else the first that matches.
 * `protections` are in the order in which they are asked. A rule that is no pattern matches in any case, as in
 * Gitea; in a pattern `*` stops at slashes and `**` does not.
 */
export function protectionOf(
  protections: readonly BranchProtection[],
  branch: string,
): BranchProtection | undefined {
  const exact = protections.find(({ rule }) => rule === branch)
  if (exact !== undefined || protections.length === 0) return exact
  const anyCase = branch.toLowerCase()
  return protections.find(({ rule }) =>
    isPattern(rule) ? globMatches(rule, branch, '/') : rule.toLowerCase() === anyCase,
  )
}

/** Writers may push; to a protected branch only when it allows pushes, and those whom it names if it names any. */
export function mayPush(
  protection: Pick<BranchProtection, 'push' | 'pushers'> | undefined,
  requester: { id: number },
  access: Access,
): boolean {
  if (!atLeast(access, 'write')) return false
  if (protection === undefined) return true
  return protection.push && (protection.pushers === null || protection.pushers.includes(requester.id))
}

/** Writers may merge; into a protected branch those whom it names if it names any. */
export function mayMerge(
  protection: Pick<BranchProtection, 'mergers'> | undefined,
  userId: number,
  access: Access,
): boolean {
  if (!atLeast(access, 'write')) return false
  const mergers = protection?.mergers ?? null
  return mergers === null || mergers.includes(userId)
}

export type ChecksOutcome = 'success' | 'pending' | 'failed'

/**
 * What the statuses of a commit, the latest of each context, say together. Each required context (patterns, in
 * which `*` matches slashes too) must be posted, and all that match it must be `success`; with none required
 * all that were posted must be, and there must be one. `warning` is no success. One that failed decides,
 * though others are pending.
 */
export function checksOutcome(
  required: { contexts: readonly string[] },
  posted: ReadonlyMap<string, CommitState>,
): ChecksOutcome {
  const { contexts } = required
  if (contexts.length === 0) return worst(posted.size === 0 ? ['pending'] : [...posted.values()])
  return worst(contexts.flatMap((context) => statesOf(context, posted)))
}

function statesOf(context: string, posted: ReadonlyMap<string, CommitState>): CommitState[] {
  if (!isPattern(context)) return [posted.get(context) ?? 'pending']
  const matching = [...posted].filter(([name]) => globMatches(context, name)).map(([, state]) => state)
  return matching.length === 0 ? ['pending'] : matching
}

function worst(states: readonly CommitState[]): ChecksOutcome {
  if (states.some((state) => state !== 'success' && state !== 'pending')) return 'failed'
  return states.includes('pending') ? 'pending' : 'success'
}
