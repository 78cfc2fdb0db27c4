/** Decides how a rename of a branch changes the settings of its repository. Pure. */
import type { RepositoryEvent, RepositoryState } from '../repositories/repository.decider.ts'

/**
 * Renames the default branch and the rule with exactly this name, in one append; no event when the settings do not name
 * the branch. Never refuses: git has renamed it already.
 */
export function renamedSettings(
  state: RepositoryState,
  { from, to }: { from: string; to: string },
): RepositoryEvent[] {
  if (state.status !== 'active') return []
  const { id: repoId, settings, protections } = state
  const events: RepositoryEvent[] = []
  if (settings.defaultBranch === from) {
    events.push({ type: 'RepositoryEdited', data: { repoId, changes: { defaultBranch: to } } })
  }
  const protection = protections.find(({ rule }) => rule === from)
  if (protection !== undefined) {
    // The new rule comes first, so the branch is always protected.
    events.push({ type: 'BranchProtectionSet', data: { repoId, protection: { ...protection, rule: to } } })
    events.push({ type: 'BranchProtectionRemoved', data: { repoId, rule: from } })
  }
  return events
}
