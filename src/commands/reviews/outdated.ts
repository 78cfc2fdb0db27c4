/** Which reviews are of what the pull request was before its head moved. Pure. */
import type { IssueRef } from '../../events/domain-events.ts'
import type { ReviewEvent } from '../../events/review-events.ts'
import type { ReviewFacts } from '../../projections/review-facts.ts'

/** What a move of the head means for reviews. */
export interface MovedContent {
  /** Whether the pull request changes other files, or in another way, than before. */
  changed: boolean
  /** Whether the branch protection dismisses approvals then. */
  dismissStale: boolean
}

/** The event that follows the move of the head; none when no review is affected. */
export function outdatedReviews(
  { repoId, index, reviews }: IssueRef & { reviews: readonly ReviewFacts[] },
  head: string,
  { changed, dismissStale }: MovedContent,
): ReviewEvent[] {
  const written = reviews.filter(({ commit, kind }) => kind !== 'pending' && commit !== '')
  const current = written.filter(({ commit, stale }) => commit === head && stale)
  const others = changed ? written.filter(({ commit }) => commit !== head) : []
  const stale = others.filter((review) => !review.stale)
  const dismissed = dismissStale
    ? others.filter((review) => review.kind === 'approved' && !review.dismissed)
    : []
  if (current.length + stale.length + dismissed.length === 0) return []
  const ids = (some: typeof reviews) => some.map(({ id }) => id)
  const data = { repoId, index, head, stale: ids(stale), current: ids(current), dismissed: ids(dismissed) }
  return [{ type: 'ReviewsOutdated', data }]
}
