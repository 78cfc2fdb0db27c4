/** The default settings of a repository, and the order of its branch protections. */
import type { BranchProtection } from './catalog/branches.ts'
import type { MergeSettings } from './catalog/repositories.ts'

/** Gitea's defaults for the pull requests of a new repository. */
export const DEFAULT_MERGE_SETTINGS: MergeSettings = {
  mergeStyles: ['merge', 'rebase', 'rebase-merge', 'squash', 'fast-forward-only'],
  defaultMergeStyle: 'merge',
  allowRebaseUpdate: true,
  deleteBranchAfterMerge: false,
}

/** Adds a rule, or replaces the one with the same name. Sorts by priority, then by time of creation. */
export function withProtection(
  protections: readonly BranchProtection[],
  protection: BranchProtection,
): BranchProtection[] {
  const others = protections.filter(({ rule }) => rule !== protection.rule)
  return [...others, protection].sort(
    (a, b) => a.priority - b.priority || a.createdAt.localeCompare(b.createdAt),
  )
}
