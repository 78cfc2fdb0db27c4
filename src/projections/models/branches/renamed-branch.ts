/** The branches of a pull request after a rename. Deciders and read models share it. */
import type { BranchPoint } from '../../../events/catalog/pull-requests.ts'
import type { EventOf } from '../../../events/handlers.ts'

/** Returns the head or the base with its new name. */
export function renamedBranch(
  { head, base }: { head: BranchPoint; base: BranchPoint },
  { data: { side, to } }: EventOf<'PullRequestBranchRenamed'>,
): { head: BranchPoint } | { base: BranchPoint } {
  return side === 'head' ? { head: { ...head, branch: to } } : { base: { ...base, branch: to } }
}
