/** What a move of the head, or another base branch, does to reviews. Pure. */
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { ReviewEvent } from '../../events/catalog/reviews.ts'
import type { ReviewFacts } from '../../projections/models/reviews/review-facts.ts'

/** What a move means for reviews. */
export interface MovedContent {
  /** Whether the pull request changes other files, or in another way, than before. */
  changed: boolean
  /** Whether the branch protection dismisses approvals then. */
  dismissStale: boolean
  /** After a change of the base branch: the ids of the reviews and requests that are official by its rules. */
  official?: ReadonlySet<number>
}

/** The event that follows the move; none when no review is affected. `now`: the pull request after the move. */
export function outdatedReviews(
  { repoId, index, reviews }: IssueRef & { reviews: readonly ReviewFacts[] },
  now: { head: string; mergeBase: string },
  { changed, dismissStale, official }: MovedContent,
): ReviewEvent[] {
  const written = reviews.filter(({ commit, kind }) => kind !== 'pending' && commit !== '')
  // The same commit is another change when it is compared with something else.
  const isCurrent = ({ commit, mergeBase }: ReviewFacts) => commit === now.head && mergeBase === now.mergeBase
  const current = written.filter((review) => isCurrent(review) && review.stale)
  const others = changed ? written.filter((review) => !isCurrent(review)) : []
  const stale = others.filter((review) => !review.stale)
  // Another base branch may dismiss stale approvals that the one before did not dismiss.
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
 * `gained`: the last verdicts that become official. `lost`: the approvals and the requests that stop being official. A
 * rejection stays until it is dismissed: a change of the base branch and back must not lift that of a former writer. What an
 * open request supersedes stays superseded. No request becomes official: a stranger may have made it, to learn who may write.
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
