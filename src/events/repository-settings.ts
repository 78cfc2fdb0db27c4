/** What holds for a repository before an event says otherwise, and how its protections add up. */
import type { BranchProtection, MergeSettings } from './domain-events.ts'

/** What may be done with pull requests until somebody decides otherwise: Gitea's defaults. */
export const DEFAULT_MERGE_SETTINGS: MergeSettings = {
  mergeStyles: ['merge', 'rebase', 'rebase-merge', 'squash', 'fast-forward-only'],
  defaultMergeStyle: 'merge',
  allowRebaseUpdate: true,
  deleteBranchAfterMerge: false,
}

/** A rule is told apart by its name; they are asked by priority, and among equals in the order of making. */
export function withProtection(
  protections: readonly BranchProtection[],
  protection: BranchProtection,
): BranchProtection[] {
  const others = protections.filter(({ rule }) => rule !== protection.rule)
  return [...others, protection].sort(
    (a, b) => a.priority - b.priority || a.createdAt.localeCompare(b.createdAt),
  )
}
