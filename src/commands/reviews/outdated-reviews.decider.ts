/** Decides how reviews change when the head moves or the base branch changes. Pure. */
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { ReviewEvent } from '../../events/catalog/reviews.ts'
import type { ReviewFacts } from '../../projections/models/reviews/review-facts.ts'

/** Effect of a move on reviews. */
export interface MovedContent {
  /** Whether the changes of the pull request differ from before. */
  changed: boolean
  /** Whether the branch protection dismisses stale approvals. */
  dismissStale: boolean
  /** After a change of the base branch: ids of the reviews and requests that are official by its rules. */
  official?: ReadonlySet<number>
}

/** Returns the event of the move, if it affects a review. `now`: the pull request after the move. */
export function outdatedReviews(
  { repoId, index, reviews }: IssueRef & { reviews: readonly ReviewFacts[] },
  now: { head: string; mergeBase: string },
  { changed, dismissStale, official }: MovedContent,
): ReviewEvent[] {
  const written = reviews.filter(({ commit, kind }) => kind !== 'pending' && commit !== '')
  // The same commit with another merge base is another change.
  const isCurrent = ({ commit, mergeBase }: ReviewFacts) => commit === now.head && mergeBase === now.mergeBase
  const current = written.filter((review) => isCurrent(review) && review.stale)
  const others = changed ? written.filter((review) => !isCurrent(review)) : []
  const stale = others.filter((review) => !review.stale)
  // The new base branch may dismiss stale approvals that the old one kept.
  const outdated = official
    ? written.filter((review) => !isCurrent(review) && (changed || review.stale))
    : others
  const dismissed = dismissStale
    ? outdated.filter((review) => review.kind === 'approved' && !review.dismissed)
    : []
  const counted = official && recountOfficial(reviews, official)
  const affected = [...current, ...stale, ...dismissed, ...(counted?.gained ?? []), ...(counted?.lost ?? [])]
  if (affected.length === 0) return []
  const data = {
    repoId,
    index,
    head: now.head,
    stale: idsOf(stale),
    current: idsOf(current),
    dismissed: idsOf(dismissed),
    ...(counted && { official: idsOf(counted.gained), unofficial: idsOf(counted.lost) }),
  }
  return [{ type: 'ReviewsOutdated', data }]
}

const idsOf = (some: readonly ReviewFacts[]) => some.map(({ id }) => id)

/**
 * `gained`: the last verdicts that become official. `lost`: approvals and requests that stop being official. A
 * rejection stays until it is dismissed: changing the base and back must not lift the rejection of a former writer.
 * Superseded reviews stay superseded. Requests never become official: they would tell public readers who may write.
 */
function recountOfficial(reviews: readonly ReviewFacts[], official: ReadonlySet<number>) {
  const requests = reviews.filter(({ kind }) => kind === 'request' || kind === 'team-request')
  const superseded = new Set(requests.flatMap(({ superseded = [] }) => superseded))
  const last = new Map<number, ReviewFacts>()
  for (const review of reviews) {
    if (review.kind === 'approved' || review.kind === 'rejected') last.set(review.reviewer.id, review)
  }
  const verdicts = [...last.values()].filter(({ id }) => !superseded.has(id))
  return {
    gained: verdicts.filter((review) => !review.official && official.has(review.id)),
    lost: [...verdicts, ...requests].filter(
      ({ id, kind, official: counts }) => counts && kind !== 'rejected' && !official.has(id),
    ),
  }
}
