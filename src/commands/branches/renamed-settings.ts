/** What the settings of a repository say of a branch, under its new name. Pure. */
import type { RepositoryEvent, RepositoryState } from '../repositories/repository.decider.ts'

/**
 * The default branch stays the default one, and the rule with exactly its name stays its rule: in one append. No event when
 * the settings do not name the branch. There is nothing to refuse: git has renamed it already.
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
    // The new rule first: at no moment is the branch without one.
    events.push({ type: 'BranchProtectionSet', data: { repoId, protection: { ...protection, rule: to } } })
    events.push({ type: 'BranchProtectionRemoved', data: { repoId, rule: from } })
  }
  return events
}
