/** Branch protection: the rule for a branch, push and merge permissions, and status checks. Pure. */
import type { BranchProtection } from '../events/catalog/branches.ts'
import type { CommitState } from '../events/catalog/statuses.ts'
import { type Access, atLeast } from './access.ts'
import { globMatches, isPattern } from './glob.ts'

/**
 * Returns the rule that protects a branch, as in Gitea since 1.23: the matching rule with the lowest priority number. Among
 * equal numbers, the exact name comes first, then rules without special characters, then the oldest. `protections` are in
 * the order of their priorities. A rule without special characters ignores case. In a pattern, `*` does not match slashes
 * and `**` does.
 */
export function protectionOf(
  protections: readonly BranchProtection[],
  branch: string,
): BranchProtection | undefined {
  const anyCase = branch.toLowerCase()
  const nearness = ({ rule }: BranchProtection) => (rule === branch ? 2 : isPattern(rule) ? 0 : 1)
  let found: BranchProtection | undefined
  for (const protection of protections) {
    if (found !== undefined) {
      if (protection.priority > found.priority) break
      if (nearness(protection) <= nearness(found)) continue
    }
    const { rule } = protection
    if (isPattern(rule) ? globMatches(rule, branch, '/') : rule.toLowerCase() === anyCase) found = protection
  }
  return found
}

/** A user, with the ids of the user's teams that have the repository: `teamsWith`. */
export interface Member {
  id: number
  teams: readonly number[]
}

const isNamed = (users: readonly number[] | null, teams: readonly number[] = [], member: Member) =>
  users === null || users.includes(member.id) || teams.some((id) => member.teams.includes(id))

/** Writers may push. A protected branch must also allow pushes, and may limit them to users and teams. */
export function mayPush(
  protection: Pick<BranchProtection, 'push' | 'pushers' | 'pusherTeams'> | undefined,
  requester: Member,
  access: Access,
): boolean {
  if (!atLeast(access, 'write')) return false
  if (protection === undefined) return true
  return protection.push && isNamed(protection.pushers, protection.pusherTeams, requester)
}

/** Writers may merge. A protected branch may limit merges to users and teams. */
export function mayMerge(
  protection: Pick<BranchProtection, 'mergers' | 'mergerTeams'> | undefined,
  merger: Member,
  access: Access,
): boolean {
  if (!atLeast(access, 'write')) return false
  return protection === undefined || isNamed(protection.mergers, protection.mergerTeams, merger)
}

export type ChecksOutcome = 'success' | 'pending' | 'failed'

/**
 * Returns the outcome of a commit's latest statuses by context. Required contexts are patterns, in which `*` also
 * matches slashes. Each must match at least one posted context, and all matches must be `success` or `skipped`. Without
 * required contexts, at least one status must be posted and all must be one of these. `warning` is not a success. A
 * failed status decides even if others are pending. `pause` is called between matches to yield: many names against long
 * patterns take seconds.
 */
export async function checksOutcome(
  { contexts }: { contexts: readonly string[] },
  posted: ReadonlyMap<string, CommitState>,
  pause: () => Promise<void>,
): Promise<ChecksOutcome> {
  if (contexts.length === 0) return worst(posted.size === 0 ? ['pending'] : [...posted.values()])
  const states = new Set<CommitState>()
  for (const context of contexts)
    for (const state of await statesOf(context, posted, pause)) states.add(state)
  return worst([...states])
}

async function statesOf(
  context: string,
  posted: ReadonlyMap<string, CommitState>,
  pause: () => Promise<void>,
): Promise<Iterable<CommitState>> {
  if (!isPattern(context)) return [posted.get(context) ?? 'pending']
  const matching = new Set<CommitState>()
  for (const [name, state] of posted) {
    if (globMatches(context, name)) matching.add(state)
    await pause()
  }
  return matching.size === 0 ? ['pending'] : matching
}

/** Whether the required contexts of a protection include the context of a status. Without any, each one is required. */
export const isRequiredContext = (contexts: readonly string[], name: string): boolean =>
  contexts.length === 0 ||
  contexts.some((context) => (isPattern(context) ? globMatches(context, name) : context === name))

const FAILED: ReadonlySet<CommitState> = new Set(['error', 'failure', 'warning'])

function worst(states: readonly CommitState[]): ChecksOutcome {
  if (states.some((state) => FAILED.has(state))) return 'failed'
  return states.includes('pending') ? 'pending' : 'success'
}
