/** Whether a pull request may be merged: merge rule 2. Pure. */
import {
  type AccountRef,
  type BranchProtection,
  MERGE_STYLES,
  type MergeStyle,
} from '../../events/domain-events.ts'
import { type Refusal, refuse } from '../../refusal.ts'
import type { ChecksOutcome } from '../../rights/protection-rules.ts'
import { isWorkInProgress } from '../../work-in-progress.ts'
import type { PullState } from './pull-request.ts'

export interface MergeRequest {
  /** `Do`; any text. */
  style: string
  /** `head_commit_id`: the head that the requester has seen. */
  expectedHead?: string
  /** `force_merge` of an admin: protection rules do not hold. */
  force: boolean
  /** A merge that waits for its checks does not need them yet. */
  scheduling: boolean
  /** A scheduled merge whose time has come: whose schedule must still be there. */
  scheduledBy?: AccountRef
}

export interface MergeFacts {
  mayMerge: boolean
  allowedStyles: readonly MergeStyle[]
  protection: BranchProtection | undefined
  /** Of the head, against the contexts that the protection requires. */
  checks: ChecksOutcome
  /** Where the branches stand in git; null when one is gone. */
  headTip: string | null
  baseTip: string | null
  /** Whether the head lacks commits of the base. */
  outdated: boolean
  /** Whether the commits that the merge would bring to the tip of the base would be signed. */
  wouldBeSigned: boolean
  /** Numbers of the issues that it depends on and that are open. */
  openDependencies: readonly string[]
}

/** The name of the style, when it is one. */
export function isMergeStyle(style: string): style is MergeStyle {
  return MERGE_STYLES.some((known) => known === style)
}

/** A head that moved and is not recorded yet must not be merged unseen, nor must what it replaced. */
export const headHasMoved = refuse.conflict('the head branch has just moved; try again')

/** Canceled just before its time: nobody wants that merge any more. */
export const scheduleIsGone = refuse.notFound('no merge is scheduled')

/** Why the pull request can't be merged so, or undefined. What is not allowed comes before conflicts. */
export function mergeRefusal(
  state: PullState,
  request: MergeRequest,
  facts: MergeFacts,
): Refusal | undefined {
  if (state.status === 'none') return refuse.notFound('pull request not found')
  if (state.status === 'merged') return refuse.notAllowed('the pull request is merged already')
  if (state.status === 'closed') return refuse.notFound('the pull request is closed')
  const { scheduledBy } = request
  if (scheduledBy !== undefined && state.schedule?.by.id !== scheduledBy.id) return scheduleIsGone
  if (!facts.mayMerge) return refuse.notAllowed('you are not allowed to merge this pull request')
  const { style, expectedHead } = request
  if (!isMergeStyle(style)) return refuse.notAllowed(`Do: "${style}" is no merge style`)
  if (!facts.allowedStyles.includes(style)) {
    return refuse.notAllowed(`Do: ${style} is not allowed in this repository`)
  }
  // A merge that was done elsewhere is not ours to prevent.
  if (style === 'manually-merged') return undefined
  if (isWorkInProgress(state.title)) return refuse.notAllowed('the pull request is a work in progress')
  if (facts.headTip === null) return notMergeable(`the head branch ${state.head.branch} is gone`)
  if (facts.baseTip === null) return notMergeable(`the base branch ${state.base.branch} is gone`)
  if (facts.openDependencies.length > 0) {
    return refuse.notAllowed('it depends on issues that are still open', facts.openDependencies)
  }
  const protects = protectionRefusal(request, facts)
  if (protects !== undefined) return protects
  // Conflicts (merge rule 7) come after all that is not allowed (merge rule 2).
  if (expectedHead !== undefined && expectedHead !== state.head.sha) {
    return refuse.conflict(`head_commit_id: the head is at ${state.head.sha}`)
  }
  return facts.headTip === state.head.sha ? undefined : headHasMoved
}

const notMergeable = (reason: string) => refuse.notAllowed(`the pull request can not be merged: ${reason}`)

function protectionRefusal(
  { force, scheduling }: MergeRequest,
  { protection, checks, outdated, wouldBeSigned }: MergeFacts,
): Refusal | undefined {
  if (protection === undefined) return undefined
  const { rule } = protection
  if (protection.requireSigned && !wouldBeSigned) {
    return refuse.notAllowed(`protection "${rule}": requires signed commits, and this merge would have none`)
  }
  if (force && !protection.blockAdminOverride) return undefined
  if (protection.statusCheck && !scheduling && checks !== 'success') {
    return refuse.notAllowed(`protection "${rule}": the required status checks are ${checks}`)
  }
  if (protection.blockOutdated && outdated) {
    return refuse.notAllowed(`protection "${rule}": the head branch lacks commits of the base branch`)
  }
  return undefined
}
