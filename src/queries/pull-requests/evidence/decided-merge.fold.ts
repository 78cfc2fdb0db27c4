/** The merge in the events of a pull request, with what it was decided by. Pure. */

import { protectionOf } from '../../../access/protection-rules.ts'
import type { BranchProtection } from '../../../events/catalog/branches.ts'
import type { BranchPoint } from '../../../events/catalog/pull-requests.ts'
import type { DomainEvent, Envelope, Recorded } from '../../../events/domain-events.ts'
import { type Handlers, handle, handledBy, type RecordedOf } from '../../../events/handlers.ts'
import { withProtection } from '../../../events/repository-settings.ts'
import { renamedBranch } from '../../../projections/models/branches/renamed-branch.ts'
import {
  changedReviews,
  type ReviewFacts,
  reviewChanges,
} from '../../../projections/models/reviews/review-facts.ts'

/** Events of reviews, without comments and drafts: these do not count for a merge. */
type ReviewEvent = RecordedOf<
  Exclude<
    keyof typeof reviewChanges,
    | 'ReviewDrafted'
    | 'ReviewDraftDiscarded'
    | 'ReviewCommentDrafted'
    | 'ReviewCommentAdded'
    | 'ReviewCommentResolved'
  >
>
type ProtectionEvent = RecordedOf<'BranchProtectionSet' | 'BranchProtectionRemoved'>
type MergedEvent = RecordedOf<'PullRequestMerged'>

/** A pull request, as far as a merge depends on it, with the events of its facts. */
export interface Pull {
  opened: RecordedOf<'PullRequestOpened'>
  head: BranchPoint
  base: BranchPoint
  /** The last move of the head. */
  moved?: RecordedOf<'PullRequestHeadMoved'>
  schedule?: RecordedOf<'MergeScheduled'> | undefined
  reviews: readonly ReviewFacts[]
  submitted: ReadonlyMap<number, RecordedOf<'ReviewSubmitted'>>
  /** The events that dismissed reviews, by review. */
  dismissals: ReadonlyMap<number, ReviewEvent>
}

/** A merge, with the pull request as it was when the merge was decided. */
export interface Merge {
  pull: Pull
  /** The event with the decision; a manual merge has no other event. */
  decided: RecordedOf<'MergeStarted'> | MergedEvent
  merged: MergedEvent
}

function reviewed(pull: Pull, event: ReviewEvent): Partial<Pull> {
  const { reviews } = handle(reviewChanges, pull, event)
  const dismissals = new Map(pull.dismissals)
  for (const [ids, { dismissed }] of changedReviews(event)) {
    for (const id of ids) if (dismissed === true && !dismissals.has(id)) dismissals.set(id, event)
  }
  if (event.type === 'ReviewUndismissed') dismissals.delete(event.data.reviewId)
  if (event.type !== 'ReviewSubmitted') return { reviews, dismissals }
  return { reviews, dismissals, submitted: new Map(pull.submitted).set(event.data.reviewId, event) }
}

const ended = () => ({ schedule: undefined })

const CHANGES: Handlers<
  | 'PullRequestHeadMoved'
  | 'TargetBranchChanged'
  | 'PullRequestBranchRenamed'
  | 'MergeScheduled'
  | 'MergeScheduleCanceled'
  | 'ScheduledMergeRefused'
  | ReviewEvent['type'],
  Pull,
  Partial<Pull>,
  Envelope
> = {
  PullRequestHeadMoved: ({ head }, event) => ({ head: { ...head, sha: event.data.to }, moved: event }),
  TargetBranchChanged: (_, { data: { base } }) => ({ base }),
  PullRequestBranchRenamed: renamedBranch,
  MergeScheduled: (_, event) => ({ schedule: event }),
  MergeScheduleCanceled: ended,
  ScheduledMergeRefused: ended,
  ReviewSubmitted: reviewed,
  ReviewDeleted: reviewed,
  ReviewDismissed: reviewed,
  ReviewUndismissed: reviewed,
  ReviewsOutdated: reviewed,
  ReviewRequested: reviewed,
  ReviewRequestRemoved: reviewed,
  TeamReviewRequested: reviewed,
  TeamReviewRequestRemoved: reviewed,
}

const isChange = handledBy<keyof typeof CHANGES, Envelope>(CHANGES)

/** Whether the evidence of a pull request may rest on an event of this type in its stream. */
export const isPullEvidence = (event: { type: string }): boolean => isChange(event) || MERGING.has(event.type)

const MERGING: ReadonlySet<string> = new Set([
  'PullRequestOpened',
  'MergeStarted',
  'MergeFailed',
  'PullRequestMerged',
])

/** Returns the merge that the events of a pull request end with, in their order; undefined when it is not merged. */
export function mergeIn(events: Iterable<Recorded<DomainEvent>>): Merge | undefined {
  let pull: Pull | undefined
  let started: Omit<Merge, 'merged'> | undefined
  for (const event of events) {
    if (event.type === 'PullRequestOpened') {
      const { head, base } = event.data
      pull = { opened: event, head, base, reviews: [], submitted: new Map(), dismissals: new Map() }
    } else if (pull === undefined) continue
    else if (event.type === 'MergeStarted') started = { pull, decided: event }
    else if (event.type === 'MergeFailed') started = undefined
    else if (event.type === 'PullRequestMerged') {
      return { ...(started ?? { pull, decided: event }), merged: event }
    } else if (isChange(event)) pull = { ...pull, ...handle(CHANGES, pull, event) }
  }
  return undefined
}

const isProtection = (event: { type: string }): event is ProtectionEvent =>
  event.type === 'BranchProtectionSet' || event.type === 'BranchProtectionRemoved'

/**
 * Returns the event with the protection that applied to a merge: the one that the decision names, or for an older merge the
 * one in force in the order of the log. `events`: those of the repository, in order.
 */
export function appliedProtection(
  { decided }: Merge,
  baseBranch: string,
  events: Iterable<Recorded<DomainEvent>>,
): RecordedOf<'BranchProtectionSet'> | undefined {
  const { decision } = decided.data
  let protections: readonly BranchProtection[] = []
  const byRule = new Map<string, RecordedOf<'BranchProtectionSet'>>()
  let named: RecordedOf<'BranchProtectionSet'> | undefined
  for (const event of events) {
    if (!isProtection(event) || event.position > decided.position) continue
    if (event.type === 'BranchProtectionRemoved') {
      const { rule } = event.data
      protections = protections.filter((protection) => protection.rule !== rule)
      continue
    }
    const { protection } = event.data
    protections = withProtection(protections, protection)
    byRule.set(protection.rule, event)
    const { id, updatedAt } = decision?.protection ?? {}
    if (protection.id === id && protection.updatedAt === updatedAt) named = event
  }
  if (decision !== undefined) return named
  const applied = protectionOf(protections, baseBranch)
  return applied && byRule.get(applied.rule)
}

/** Whether an event is a status of the merged head that was there when the merge was decided. */
export function isDecidedStatus(
  { decided, merged }: Merge,
  event: Recorded<DomainEvent>,
): event is RecordedOf<'CommitStatusPosted'> {
  if (event.type !== 'CommitStatusPosted' || event.data.sha !== merged.data.head) return false
  const { decision } = decided.data
  const last = decision === undefined ? Number.MAX_SAFE_INTEGER : (decision.checksRevision ?? -1)
  return event.revision <= last && event.position < decided.position
}

/** Returns the branch that the merge went into. */
export const baseBranchOf = ({ decided, pull }: Merge): string =>
  decided.type === 'MergeStarted' ? decided.data.baseBranch : pull.base.branch

/** Whether an event moved the base branch to the merge's commit: after the decision, or for a manual merge before it. */
export function isMergeMove(merge: Merge, event: Recorded<DomainEvent>): event is RecordedOf<'RefsUpdated'> {
  const { decided, merged } = merge
  if (event.type !== 'RefsUpdated' || event.position > merged.position) return false
  if (decided.type === 'MergeStarted' && event.position < decided.position) return false
  const ref = `refs/heads/${baseBranchOf(merge)}`
  return event.data.refs.some((moved) => moved.ref === ref && moved.to === merged.data.commit)
}
