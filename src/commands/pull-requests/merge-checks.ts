/** Decides whether a pull request may be merged: merge rule 2. Pure. */
import {
  type AccountRef,
  type BranchProtection,
  MERGE_STYLES,
  type MergeStyle,
} from '../../events/domain-events.ts'
import { type Refusal, refuse } from '../../refusal.ts'
import type { ChecksOutcome } from '../../rights/protection-rules.ts'
import { reviewProblem, reviewRulesOf } from '../../rights/review-rules.ts'
import { isWorkInProgress } from '../../work-in-progress.ts'
import type { ActivePull, PullState } from './pull-request.ts'

export interface MergeRequest {
  /** `Do`: the style, or any other text. */
  style: string
  /** `head_commit_id`: the head that the requester saw. */
  expectedHead?: string
  /** `force_merge` of an admin: protection rules do not apply. */
  force: boolean
  /** The merge is only scheduled now: its checks and approvals need not be there yet. */
  scheduling: boolean
  /** For a scheduled merge that is carried out: the user whose schedule must still exist. */
  scheduledBy?: AccountRef
}

export interface MergeFacts {
  mayMerge: boolean
  allowedStyles: readonly MergeStyle[]
  protection: BranchProtection | undefined
  /** The ids of the approvals and of the requests that are official by the rights of now. */
  officialReviews: ReadonlySet<number>
  /** The outcome of the required contexts for the head. */
  checks: ChecksOutcome
  /** The tips of the branches in git; null when a branch does not exist any more. */
  headTip: string | null
  baseTip: string | null
  /** Whether the head lacks commits of the base. */
  outdated: boolean
  /** Whether all commits that the merge would add to the base would be signed. */
  wouldBeSigned: boolean
  /** The open issues that it depends on, like `#12`. */
  openDependencies: readonly string[]
}

/** Whether a text is a merge style. */
export function isMergeStyle(style: string): style is MergeStyle {
  return MERGE_STYLES.some((known) => known === style)
}

/** The head has moved and the move is not recorded yet: neither the old nor the new head must be merged. */
export const headHasMoved = refuse.conflict('the head branch has just moved; try again')

/** The schedule was canceled just before its merge. */
export const scheduleIsGone = refuse.notFound('no merge is scheduled')

/** The reason why the pull request cannot be merged, or undefined. What is not allowed is checked before conflicts. */
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
  if (!isMergeStyle(style)) return refuse.notAllowed(`Do: "${style}" is not a merge style`)
  if (!facts.allowedStyles.includes(style)) {
    return refuse.notAllowed(`Do: ${style} is not allowed in this repository`)
  }
  // A manual merge has happened already, so nothing can prevent it.
  if (style === 'manually-merged') return undefined
  if (isWorkInProgress(state.title)) return refuse.notAllowed('the pull request is a work in progress')
  if (facts.headTip === null) return notMergeable(`the head branch ${state.head.branch} is gone`)
  if (facts.baseTip === null) return notMergeable(`the base branch ${state.base.branch} is gone`)
  if (facts.openDependencies.length > 0) {
    return refuse.notAllowed('it depends on issues that are still open', facts.openDependencies)
  }
  const protects = protectionRefusal(state, request, facts)
  if (protects !== undefined) return protects
  if (request.scheduling && isKnownToConflict(state, facts)) {
    return notMergeable(`its merge into ${state.base.branch} has conflicts`)
  }
  // Conflicts (merge rule 7) come after everything that is not allowed (merge rule 2).
  if (expectedHead !== undefined && expectedHead !== state.head.sha) {
    return refuse.conflict(`head_commit_id: the head is at ${state.head.sha}`)
  }
  return facts.headTip === state.head.sha ? undefined : headHasMoved
}

/** Whether the merge of these two commits was tried before. A merge that is not scheduled tries it again, by its own style. */
const isKnownToConflict = ({ head, mergeability }: ActivePull, { baseTip }: MergeFacts) =>
  !mergeability.mergeable && mergeability.head === head.sha && mergeability.base === baseTip

const notMergeable = (reason: string) => refuse.notAllowed(`the pull request cannot be merged: ${reason}`)

function protectionRefusal(
  { reviews }: ActivePull,
  { force, scheduling }: MergeRequest,
  { protection, officialReviews, checks, outdated, wouldBeSigned }: MergeFacts,
): Refusal | undefined {
  if (protection === undefined) return undefined
  const { rule } = protection
  if (protection.requireSigned && !wouldBeSigned) {
    return refuse.notAllowed(
      `protection "${rule}": requires signed commits, and this merge would add unsigned ones`,
    )
  }
  if (force && !protection.blockAdminOverride) return undefined
  if (protection.statusCheck && !scheduling && checks !== 'success') {
    return refuse.notAllowed(`protection "${rule}": the required status checks are ${checks}`)
  }
  const rules = reviewRulesOf(protection)
  const reviewed = scheduling ? undefined : reviewProblem(rules, reviews, officialReviews)
  if (reviewed !== undefined) return refuse.notAllowed(`protection "${rule}": ${reviewed}`)
  if (protection.blockOutdated && outdated) {
    return refuse.notAllowed(`protection "${rule}": the head branch lacks commits of the base branch`)
  }
  return undefined
}
