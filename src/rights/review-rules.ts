/** What a branch protection demands of reviews. Pure. */
import type { AccountRef, BranchProtection } from '../events/domain-events.ts'
import type { ReviewRules } from '../events/review-events.ts'
import { type Access, atLeast } from './access.ts'
import type { Member } from './protection-rules.ts'

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

/** Whether a review of this user is official: of a writer, or of one whom, or whose team, the protection names. */
export function isOfficialReviewer(
  protection: Pick<BranchProtection, 'reviews'> | undefined,
  reviewer: Member,
  access: Access,
): boolean {
  const rules = reviewRulesOf(protection)
  if (rules.approvers === null) return atLeast(access, 'write')
  return atLeast(access, 'read') && isApprover(rules, reviewer)
}

/** Whether rules that name approvers name this user, or a team of the user. */
export const isApprover = ({ approvers, approverTeams = [] }: ReviewRules, { id, teams }: Member) =>
  approvers?.includes(id) === true || approverTeams.some((team) => teams.includes(team))

/** What beside the reviews decides whether they allow a merge. */
export interface ReviewStanding {
  /** Where approvers are named: the ids of the reviewers who are approvers now. */
  approvers: readonly number[]
  /** The ids of the teams that are asked and still there: nobody can answer for one that is gone. */
  teams: readonly number[]
}

const names = (reviews: readonly CountedReview[]) =>
  [...new Set(reviews.map(({ reviewer }) => reviewer.login))].slice(0, 10).join(', ')

/**
 * Why the reviews do not allow a merge; undefined when they do. An approval counts when it is official and not
 * dismissed, and, where stale ones are ignored, not stale. Of a protection that names approvers, only theirs count, also
 * when the pull request had another base branch before, and only while they are named and in their team.
 */
export function reviewProblem(
  rules: ReviewRules,
  reviews: readonly CountedReview[],
  standing: ReviewStanding,
): string | undefined {
  const counting = reviews.filter(({ official, dismissed }) => official && !dismissed)
  const approvals = counting.filter(
    ({ kind, stale, reviewer }) =>
      kind === 'approved' &&
      !(rules.ignoreStale && stale) &&
      (rules.approvers === null || standing.approvers.includes(reviewer.id)),
  )
  if (approvals.length < rules.required) {
    return `needs ${rules.required} official approvals and has ${approvals.length}`
  }
  const rejections = counting.filter(({ kind }) => kind === 'rejected')
  if (rules.blockOnRejected && rejections.length > 0) return `changes are requested by ${names(rejections)}`
  const requests = counting.filter(
    ({ kind, reviewer }) =>
      kind === 'request' || (kind === 'team-request' && standing.teams.includes(reviewer.id)),
  )
  if (rules.blockOnRequests && requests.length > 0) return `a review is requested from ${names(requests)}`
  return undefined
}
