/** Decides whether a pull request may be merged: `merge.2`. Pure. */

import type { ChecksOutcome } from '../../access/protection-rules.ts'
import { countedApprovals, reviewProblem, reviewRulesOf } from '../../access/review-rules.ts'
import { isWorkInProgress } from '../../domain/work-in-progress.ts'
import { type Refusal, refuse } from '../../errors/refusal.ts'
import type { BranchProtection } from '../../events/catalog/branches.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { MergeDecision } from '../../events/catalog/pull-requests.ts'
import { MERGE_STYLES, type MergeStyle } from '../../events/catalog/repositories.ts'
import { verdictsOf } from '../../projections/models/reviews/review-facts.ts'
import type { ActivePull, PullState } from './pull-request.decider.ts'

export interface MergeRequest {
  /** `Do`: the style, unchecked. */
  style: string
  /** `head_commit_id`: the expected head. */
  expectedHead?: string
  /** `force_merge` of an admin: protection rules do not apply. */
  force: boolean
  /** The merge is only being scheduled: checks and approvals may be missing. */
  scheduling: boolean
  /** For the merge of a schedule: the user whose schedule must still exist. */
  scheduledBy?: AccountRef
}

export interface MergeFacts {
  mayMerge: boolean
  /** The merger's access, and how the merger got it. */
  granted: Pick<MergeDecision, 'access' | 'through'>
  allowedStyles: readonly MergeStyle[]
  protection: BranchProtection | undefined
  /** Ids of the approvals and requests that are official by present permissions. */
  officialReviews: ReadonlySet<number>
  /** Outcome of the required contexts for the head. */
  checks: ChecksOutcome
  /** Revision of the last status that `checks` is from; null without one. */
  checksRevision: number | null
  /** Tips in git; null for a deleted branch. */
  headTip: string | null
  baseTip: string | null
  /** Whether the head lacks commits of the base. */
  outdated: boolean
  /** Whether the base would only gain signed commits. */
  wouldBeSigned: boolean
  /** Open issues that it depends on, like `#12`. */
  openDependencies: readonly string[]
}

export function isMergeStyle(style: string): style is MergeStyle {
  return MERGE_STYLES.some((known) => known === style)
}

/** Refusal while a move of the head is not recorded: neither the old nor the new head may be merged. */
export const headHasMoved = refuse.conflict('the head branch has just moved; try again')

/** Refusal of a merge whose schedule was canceled just before. */
export const scheduleIsGone = refuse.notFound('no merge is scheduled')

/**
 * Returns why the pull request cannot be merged, or undefined. Checks `merge.2` before conflicts (`merge.7`). The
 * refusal is that of the first reason; `errors` lists all reasons of `merge.2`.
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
  // Rules name users and teams, so only users who may merge get details.
  if (!facts.mayMerge) return refuse.notAllowed('you are not allowed to merge this pull request')
  const reasons = reasonsAgainst(state, request, facts)
  const [first] = reasons
  if (first !== undefined) return refuse.notAllowed(first, reasons)
  // A manual merge has happened already, so conflicts do not matter.
  const { style, expectedHead } = request
  if (style === 'manually-merged') return undefined
  if (expectedHead !== undefined && expectedHead !== state.head.sha) {
    return refuse.conflict(`head_commit_id: the head is at ${state.head.sha}`)
  }
  return facts.headTip === state.head.sha ? undefined : headHasMoved
}

/** Returns the facts of an allowed merge, to be recorded with it. */
export function mergeDecision(
  state: ActivePull,
  { force }: Pick<MergeRequest, 'force'>,
  facts: MergeFacts,
): MergeDecision {
  const { granted, protection, checks, checksRevision, officialReviews } = facts
  const rules = reviewRulesOf(protection)
  const approvals =
    rules.required === 0 ? null : countedApprovals(rules, state.reviews, officialReviews).map(({ id }) => id)
  return {
    ...granted,
    forced: force && granted.access === 'admin',
    bypassed: protectionReasons(state, { force: false, scheduling: false }, facts),
    protection: protection === undefined ? null : { id: protection.id, updatedAt: protection.updatedAt },
    checks: protection?.statusCheck ? checks : null,
    checksRevision,
    approvals,
    reviews: verdictsOf(state.reviews),
  }
}

export const WORK_IN_PROGRESS = 'the pull request is a work in progress'

/** Returns all reasons of `merge.2`, in its order. */
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
    reasons.push(`the pull request depends on open issues: ${facts.openDependencies.join(', ')}`)
  }
  reasons.push(...protectionReasons(state, request, facts))
  // A merge that is not scheduled is tried with its own style: a conflict is then `merge.7`.
  if ((request.scheduling || reasons.length > 0) && isKnownToConflict(state, facts)) {
    reasons.push(notMergeable(`its merge into ${state.base.branch} has conflicts`))
  }
  return reasons
}

/** Whether the last trial merge of these two commits had conflicts. */
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
