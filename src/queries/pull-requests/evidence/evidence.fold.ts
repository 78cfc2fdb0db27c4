/** Why a pull request could be merged, from the recorded events alone: `evidence.1`. Pure. */

import { isRequiredContext } from '../../../access/protection-rules.ts'
import { reviewRulesOf } from '../../../access/review-rules.ts'
import type { EvidenceFacts } from '../../../api/pull-requests/evidence.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { DomainEvent, Envelope, Recorded } from '../../../events/domain-events.ts'
import type { RecordedOf } from '../../../events/handlers.ts'
import type { ReviewFacts } from '../../../projections/models/reviews/review-facts.ts'
import {
  appliedProtection,
  baseBranchOf,
  isDecidedStatus,
  isMergeMove,
  mergeIn,
  type Pull,
} from './decided-merge.fold.ts'

const factOf = ({ stream, revision, metadata }: Envelope) => ({
  stream,
  revision,
  hash: metadata.hash ?? null,
})
const person = ({ id, login }: AccountRef) => ({ id, login })
const actorOf = ({ metadata: { actor } }: Envelope) => actor && person(actor)
const credentialOf = ({ metadata }: Envelope) => metadata.credential ?? null

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
  const move = events.find((event) => isMergeMove(merge, event))
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
