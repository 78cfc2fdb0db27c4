/** What a branch protection demands of reviews. Pure. */
import type { AccountRef, BranchProtection } from '../events/domain-events.ts'
import type { ReviewRules } from '../events/review-events.ts'
import { type Access, atLeast } from './access.ts'

/** A review, as far as a merge depends on it. */
interface CountedReview {
  reviewer: AccountRef
  kind: string
  official: boolean
  stale: boolean
  dismissed: boolean
}

/** The demands of a protection that has none on reviews. */
export const NO_REVIEW_RULES: ReviewRules = {
  required: 0,
  approvers: null,
  blockOnRejected: false,
  blockOnRequests: false,
  dismissStale: false,
  ignoreStale: false,
}

export const reviewRulesOf = (protection: Pick<BranchProtection, 'reviews'> | undefined): ReviewRules =>
  protection?.reviews ?? NO_REVIEW_RULES

/** Whether a request to a team counts: it gives its members write access, or the protection names it. */
export function isOfficialTeam(
  protection: Pick<BranchProtection, 'reviews'> | undefined,
  { id, permission }: { id: number; permission: Access },
): boolean {
  const { approvers, approverTeams = [] } = reviewRulesOf(protection)
  return approvers === null ? atLeast(permission, 'write') : approverTeams.includes(id)
}

/** Whether a review of this user is official: of a writer, or of one of those whom the protection names. */
export function isOfficialReviewer(
  protection: Pick<BranchProtection, 'reviews'> | undefined,
  userId: number,
  access: Access,
): boolean {
  const { approvers } = reviewRulesOf(protection)
  return approvers === null ? atLeast(access, 'write') : atLeast(access, 'read') && approvers.includes(userId)
}

const names = (reviews: readonly CountedReview[]) =>
  [...new Set(reviews.map(({ reviewer }) => reviewer.login))].slice(0, 10).join(', ')

/**
 * Why the reviews do not allow a merge; undefined when they do. An approval counts when it is official and not
 * dismissed, and, where stale ones are ignored, not stale. Of a protection that names approvers, only theirs count, also
 * when the pull request had another base branch before.
 */
export function reviewProblem(rules: ReviewRules, reviews: readonly CountedReview[]): string | undefined {
  const counting = reviews.filter(({ official, dismissed }) => official && !dismissed)
  const approvals = counting.filter(
    ({ kind, stale, reviewer }) =>
      kind === 'approved' &&
      !(rules.ignoreStale && stale) &&
      (rules.approvers === null || rules.approvers.includes(reviewer.id)),
  )
  if (approvals.length < rules.required) {
    return `needs ${rules.required} official approvals and has ${approvals.length}`
  }
  const rejections = counting.filter(({ kind }) => kind === 'rejected')
  if (rules.blockOnRejected && rejections.length > 0) return `changes are requested by ${names(rejections)}`
  const requests = counting.filter(({ kind }) => kind === 'request' || kind === 'team-request')
  if (rules.blockOnRequests && requests.length > 0) return `a review is requested from ${names(requests)}`
  return undefined
}
