/** Decides whether a pull request may be merged: `merge.2`. Pure. */

import type { ChecksOutcome } from '../../access/protection-rules.ts'
import { reviewProblem, reviewRulesOf } from '../../access/review-rules.ts'
import { isWorkInProgress } from '../../domain/work-in-progress.ts'
import { type Refusal, refuse } from '../../errors/refusal.ts'
import type { BranchProtection } from '../../events/catalog/branches.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import { MERGE_STYLES, type MergeStyle } from '../../events/catalog/repositories.ts'
import type { ActivePull, PullState } from './pull-request.decider.ts'

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

/**
 * Why the pull request cannot be merged, or undefined. What is not allowed (`merge.2`) is checked before conflicts
 * (`merge.7`). The refusal is that of the first reason, and `errors` has all that are not allowed.
 */
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
  // Who may not merge is told no more: the rules name people and teams.
  if (!facts.mayMerge) return refuse.notAllowed('you are not allowed to merge this pull request')
  const reasons = reasonsAgainst(state, request, facts)
  const [first] = reasons
  if (first !== undefined) return refuse.notAllowed(first, reasons)
  // A manual merge has happened already, so nothing else can prevent it.
  const { style, expectedHead } = request
  if (style === 'manually-merged') return undefined
  if (expectedHead !== undefined && expectedHead !== state.head.sha) {
    return refuse.conflict(`head_commit_id: the head is at ${state.head.sha}`)
  }
  return facts.headTip === state.head.sha ? undefined : headHasMoved
}

export const WORK_IN_PROGRESS = 'the pull request is a work in progress'

/** All that `merge.2` has against the merge, in its order. */
export function reasonsAgainst(
  state: ActivePull,
  request: Pick<MergeRequest, 'style' | 'force' | 'scheduling'>,
  facts: MergeFacts,
): string[] {
  const { style } = request
  const reasons: string[] = []
  if (!isMergeStyle(style)) reasons.push(`Do: "${style}" is not a merge style`)
  else if (!facts.allowedStyles.includes(style)) {
    reasons.push(`Do: ${style} is not allowed in this repository`)
  }
  if (style === 'manually-merged') return reasons
  if (isWorkInProgress(state.title)) reasons.push(WORK_IN_PROGRESS)
  if (facts.headTip === null) reasons.push(notMergeable(`the head branch ${state.head.branch} is gone`))
  if (facts.baseTip === null) reasons.push(notMergeable(`the base branch ${state.base.branch} is gone`))
  if (facts.openDependencies.length > 0) {
    reasons.push(`it depends on issues that are still open: ${facts.openDependencies.join(', ')}`)
  }
  reasons.push(...protectionReasons(state, request, facts))
  // A merge that is not scheduled is tried, by its own style: then a conflict is `merge.7`.
  if ((request.scheduling || reasons.length > 0) && isKnownToConflict(state, facts)) {
    reasons.push(notMergeable(`its merge into ${state.base.branch} has conflicts`))
  }
  return reasons
}

/** Whether the merge of these two commits was tried before, and has conflicts. */
const isKnownToConflict = ({ head, mergeability }: ActivePull, { baseTip }: MergeFacts) =>
  !mergeability.mergeable && mergeability.head === head.sha && mergeability.base === baseTip

const notMergeable = (reason: string) => `the pull request cannot be merged: ${reason}`

function protectionReasons(
  { reviews }: ActivePull,
  { force, scheduling }: Pick<MergeRequest, 'force' | 'scheduling'>,
  { protection, officialReviews, checks, outdated, wouldBeSigned }: MergeFacts,
): string[] {
  if (protection === undefined) return []
  const reasons: string[] = []
  if (protection.requireSigned && !wouldBeSigned) {
    reasons.push('requires signed commits, and this merge would add unsigned ones')
  }
  if (!force || protection.blockAdminOverride) {
    if (protection.statusCheck && !scheduling && checks !== 'success') {
      reasons.push(`the required status checks are ${checks}`)
    }
    const reviewed = scheduling
      ? undefined
      : reviewProblem(reviewRulesOf(protection), reviews, officialReviews)
    if (reviewed !== undefined) reasons.push(reviewed)
    if (protection.blockOutdated && outdated) {
      reasons.push('the head branch lacks commits of the base branch')
    }
  }
  return reasons.map((reason) => `protection "${protection.rule}": ${reason}`)
}
