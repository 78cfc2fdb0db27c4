/** The review requirements of a branch protection. Pure. */

import type { BranchProtection, ReviewRules } from '../events/catalog/branches.ts'
import type { AccountRef } from '../events/catalog/parts.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import { type AccountDocument, maySignIn } from '../projections/models/users/accounts.fold.ts'
import { type Access, accessTo, atLeast } from './access.ts'
import { protectionOf } from './protection-rules.ts'
import { memberOf } from './team-membership.ts'

/** A review, as far as a merge depends on it. */
interface CountedReview {
  id: number
  reviewer: AccountRef
  kind: string
  official: boolean
  stale: boolean
  dismissed: boolean
}

/** Requirements of a protection without any on reviews. */
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

type ReviewedRepository = Pick<RepositoryDocument, 'protections'>

const rulesOf = ({ protections }: ReviewedRepository, baseBranch: string) =>
  reviewRulesOf(protectionOf(protections, baseBranch))

/**
 * Whether a request to a team counts: the team has the repository, and it gives its members write access, or the
 * protection names it.
 */
export function isOfficialTeam(
  repository: ReviewedRepository,
  baseBranch: string,
  { id, permission, hasRepository }: { id: number; permission: Access; hasRepository: boolean },
): boolean {
  if (!hasRepository) return false
  const { approvers, approverTeams = [] } = rulesOf(repository, baseBranch)
  return approvers === null ? atLeast(permission, 'write') : approverTeams.includes(id)
}

/**
 * Whether a review of this user is official: the user may sign in, and may write, or the protection names the user or a team
 * of the user.
 */
export function isOfficialReviewer(
  repository: RepositoryDocument,
  baseBranch: string,
  reviewer: AccountDocument,
): boolean {
  if (!maySignIn(reviewer)) return false
  const { approvers, approverTeams = [] } = rulesOf(repository, baseBranch)
  const access = accessTo(repository, reviewer)
  if (approvers === null) return atLeast(access, 'write')
  const { id, teams } = memberOf(repository, reviewer)
  return (
    atLeast(access, 'read') && (approvers.includes(id) || approverTeams.some((team) => teams.includes(team)))
  )
}

const names = (reviews: readonly CountedReview[]) =>
  [...new Set(reviews.map(({ reviewer }) => reviewer.login))].slice(0, 10).join(', ')

const isCounting = ({ official, dismissed }: CountedReview) => official && !dismissed

/** Returns the approvals that count for a merge: see `reviewProblem`. */
export function countedApprovals<Review extends CountedReview>(
  rules: ReviewRules,
  reviews: readonly Review[],
  officialNow: ReadonlySet<number>,
): Review[] {
  return reviews.filter(
    (review) =>
      isCounting(review) &&
      review.kind === 'approved' &&
      !(rules.ignoreStale && review.stale) &&
      officialNow.has(review.id),
  )
}

/**
 * Returns why the reviews do not allow a merge; undefined when they do. An approval counts when it is official, not
 * dismissed and, where stale ones are ignored, not stale. `officialNow` has the ids of those that would be official
 * now; others do not count, because their users have lost the permission. A rejection stays until it is dismissed.
 */
export function reviewProblem(
  rules: ReviewRules,
  reviews: readonly CountedReview[],
  officialNow: ReadonlySet<number>,
): string | undefined {
  const counting = reviews.filter(isCounting)
  const approvals = countedApprovals(rules, reviews, officialNow)
  if (approvals.length < rules.required) {
    return `needs ${rules.required} official approvals and has ${approvals.length}`
  }
  const rejections = counting.filter(({ kind }) => kind === 'rejected')
  if (rules.blockOnRejected && rejections.length > 0) return `changes are requested by ${names(rejections)}`
  const requests = counting.filter(
    ({ id, kind }) => (kind === 'request' || kind === 'team-request') && officialNow.has(id),
  )
  if (rules.blockOnRequests && requests.length > 0) return `a review is requested from ${names(requests)}`
  return undefined
}
