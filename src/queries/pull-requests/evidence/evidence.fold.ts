/** Why a pull request could be merged, from the recorded events alone: `evidence.1`. Pure. */

import { isRequiredContext, protectionOf } from '../../../access/protection-rules.ts'
import { reviewRulesOf } from '../../../access/review-rules.ts'
import type { EvidenceFacts } from '../../../api/pull-requests/evidence.ts'
import type { BranchProtection } from '../../../events/catalog/branches.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
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
interface Pull {
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

const factOf = ({ stream, revision, metadata }: Envelope) => ({
  stream,
  revision,
  hash: metadata.hash ?? null,
})
const person = ({ id, login }: AccountRef) => ({ id, login })
const actorOf = ({ metadata: { actor } }: Envelope) => actor && person(actor)
const credentialOf = ({ metadata }: Envelope) => metadata.credential ?? null

/** Returns the branch that the merge went into. */
export const baseBranchOf = ({ decided, pull }: Merge): string =>
  decided.type === 'MergeStarted' ? decided.data.baseBranch : pull.base.branch

/**
 * Returns the evidence of the merge in these events, which are in the order of the log; undefined without a merge. `pause`
 * is called between matches of contexts, which take long for many names and long patterns.
 */
export async function evidenceOf(
  events: readonly Recorded<DomainEvent>[],
  pause: () => Promise<void>,
): Promise<EvidenceFacts | undefined> {
  const merge = mergeIn(events)
  if (merge === undefined) return undefined
  const { pull, decided, merged } = merge
  const { opened } = pull
  const { decision } = decided.data
  const base = baseBranchOf(merge)
  const missing: string[] = decision === undefined ? [...DECIDED_FACTS] : []
  const need = <T>(name: string, value: T | null): T | null => {
    if (value === null) missing.push(name)
    return value
  }

  const set = appliedProtection(merge, base, events)
  if (set === undefined && decision?.protection) missing.push('protection')
  const protection = set?.data.protection
  const contexts = protection?.statusCheck ? protection.contexts : []
  const latest = new Map<string, RecordedOf<'CommitStatusPosted'>>()
  for (const event of events) if (isDecidedStatus(merge, event)) latest.set(event.data.context, event)
  const statuses: EvidenceFacts['checks']['statuses'] = []
  for (const status of latest.values()) {
    const { context, state, targetUrl, creator } = status.data
    await pause()
    statuses.push({
      context,
      required: protection?.statusCheck === true && isRequiredContext(contexts, context),
      state,
      target_url: targetUrl,
      by: person(creator),
      at: status.metadata.at,
      credential: credentialOf(status),
      event: factOf(status),
    })
  }

  const scheduled =
    decision === undefined ? null : pull.schedule !== undefined && decided.metadata.credential === undefined
  const move = events.find((event) => event.type === 'RefsUpdated')
  const hasMoved = decided.type === 'PullRequestMerged' || decided.data.from !== merged.data.commit
  const lastPusher = pull.moved === undefined ? person(opened.data.poster) : actorOf(pull.moved)
  const reviews = pull.reviews.flatMap((review) => reviewOf(review, pull, decision?.approvals ?? null))
  return {
    number: merged.data.index,
    opened_by: person(opened.data.poster),
    opened_at: opened.metadata.at,
    opened: factOf(opened),
    base,
    head_commit: merged.data.head,
    last_pusher: need('last_pusher', lastPusher),
    merge: {
      by: person(merged.data.mergedBy),
      at: merged.metadata.at,
      style: merged.data.style,
      commit: merged.data.commit,
      base_commit: decided.type === 'MergeStarted' ? decided.data.from : null,
      access: decision?.access ?? null,
      through: decision?.through ?? null,
      credential: need('merge.credential', scheduled ? 'schedule' : credentialOf(decided)),
      scheduled,
      sudo: decided.metadata.sudo === undefined ? null : person(decided.metadata.sudo),
      forced: decision?.forced ?? null,
      bypassed: decision?.bypassed ?? null,
      decided: factOf(decided),
      event: factOf(merged),
      move: hasMoved ? need('merge.move', move === undefined ? null : moveOf(move)) : null,
    },
    protection:
      set === undefined
        ? null
        : {
            rule: set.data.protection.rule,
            settings: set.data.protection,
            changed_at: set.metadata.at,
            changed_by: actorOf(set),
            event: factOf(set),
          },
    checks: {
      required: protection?.statusCheck === true,
      contexts: [...contexts],
      outcome: decision?.checks ?? null,
      statuses,
    },
    required_approvals: reviewRulesOf(protection).required,
    reviews,
    schedule: pull.schedule === undefined ? null : scheduleOf(pull.schedule),
    four_eyes: lastPusher && hasFourEyes(merged.data.mergedBy, [opened.data.poster, lastPusher], reviews),
    not_recorded: missing,
  }
}

/** The facts of a decision, which older merges lack. */
const DECIDED_FACTS = [
  'merge.access',
  'merge.through',
  'merge.scheduled',
  'merge.forced',
  'merge.bypassed',
  'checks.outcome',
  'reviews.counted',
] as const

function reviewOf(
  { id, reviewer, kind, commit, official, stale, dismissed }: ReviewFacts,
  { submitted, dismissals }: Pull,
  counted: readonly number[] | null,
): EvidenceFacts['reviews'] {
  const event = submitted.get(id)
  if (event === undefined || (kind !== 'approved' && kind !== 'rejected')) return []
  const dismissal = dismissed ? dismissals.get(id) : undefined
  return [
    {
      id,
      by: person(reviewer),
      verdict: kind,
      commit,
      at: event.metadata.at,
      official,
      stale,
      dismissed,
      dismissed_by: dismissal?.type === 'ReviewDismissed' ? actorOf(dismissal) : null,
      dismissed_at: dismissal?.metadata.at ?? null,
      dismissal: dismissal === undefined ? null : factOf(dismissal),
      counted: counted === null || kind !== 'approved' ? null : counted.includes(id),
      event: factOf(event),
    },
  ]
}

const moveOf = (event: RecordedOf<'RefsUpdated'>) => ({
  cause: event.data.cause,
  by: actorOf(event),
  at: event.metadata.at,
  credential: credentialOf(event),
  event: factOf(event),
})

const scheduleOf = (event: RecordedOf<'MergeScheduled'>) => ({
  by: person(event.data.by),
  at: event.metadata.at,
  credential: credentialOf(event),
  expected_head: event.data.expectedHead,
  waits_for: [...event.data.waitsFor],
  event: factOf(event),
})

/** Whether a user besides the authors merged, or approved exactly what was merged. */
function hasFourEyes(
  merger: AccountRef,
  authors: readonly AccountRef[],
  reviews: EvidenceFacts['reviews'],
): boolean {
  const isOther = ({ id }: AccountRef) => authors.every((author) => author.id !== id)
  return (
    isOther(merger) ||
    reviews.some(
      ({ by, verdict, official, stale, dismissed }) =>
        verdict === 'approved' && official && !stale && !dismissed && isOther(by),
    )
  )
}
