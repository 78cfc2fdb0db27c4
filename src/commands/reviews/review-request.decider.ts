/** Decides requests for reviews. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { TeamRef } from '../../events/catalog/organizations.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import type { ReviewFacts } from '../../projections/models/reviews/review-facts.ts'
import type { Decision } from '../execution/decider.ts'
import type { PullState } from '../pull-requests/pull-request.decider.ts'
import { MAX_REVIEWS, supersededBy } from './review.decider.ts'

/** A user whose review is requested. */
export interface UserRequest {
  reviewer: AccountRef
  /** Id of the request. */
  reviewId: number
  /** Whether the user's review would be official. */
  official: boolean
}

/** A team whose review is requested, from any member. */
export interface TeamRequest {
  team: TeamRef
  reviewId: number
  /** Whether the request would be official. */
  official: boolean
  /** Ids of its members. */
  members: readonly number[]
}

const gone = refuse.notFound('pull request not found')

const requestTo = (reviews: readonly ReviewFacts[], { id }: TeamRef) =>
  reviews.find(({ kind, reviewer }) => kind === 'team-request' && reviewer.id === id)

/**
 * Requests reviews of users and teams; no event for a repeated request. A user who has reviewed may be asked again: an
 * approval then does not count until the request is removed or answered with a comment. A rejection still counts:
 * otherwise any user who may request reviews could lift it.
 */
export function decideRequestReviews(
  state: PullState,
  wanted: readonly UserRequest[],
  teams: readonly TeamRequest[] = [],
): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  const { repoId, index, reviews, poster, status } = state
  const events: PullRequestEvent[] = []
  for (const { reviewer, reviewId, official } of wanted) {
    if (reviewer.id === poster.id) {
      return refuse.unprocessable(`reviewers: ${reviewer.login} has opened the pull request`)
    }
    const own = reviews.filter((review) => review.reviewer.id === reviewer.id)
    if (own.some(({ kind }) => kind === 'request')) continue
    if (status !== 'open') return refuse.forbidden(`a review of a ${status} pull request cannot be requested`)
    const approvals = official ? own.filter((one) => one.official && one.kind === 'approved') : []
    const superseded = approvals.map(({ id }) => id)
    events.push({
      type: 'ReviewRequested',
      data: { repoId, index, reviewId, reviewer, official, superseded },
    })
  }
  for (const { team, reviewId, official, members } of teams) {
    if (requestTo(reviews, team) !== undefined) continue
    if (status !== 'open') return refuse.forbidden(`a review of a ${status} pull request cannot be requested`)
    const notified = members.filter((id) => id !== poster.id)
    const data = { repoId, index, reviewId, team, official, members: notified }
    events.push({ type: 'TeamReviewRequested', data })
  }
  if (reviews.length + events.length > MAX_REVIEWS) {
    return refuse.unprocessable(`a pull request can have at most ${MAX_REVIEWS} reviews and requests`)
  }
  return events
}

/** Removes requests; no event without one. The superseded review counts again. */
export function decideRemoveRequests(
  state: PullState,
  reviewers: readonly AccountRef[],
  teams: readonly TeamRef[] = [],
): Decision<PullRequestEvent> {
  if (state.status === 'none') return gone
  const { repoId, index, reviews } = state
  const ofTeams = teams.flatMap((team): PullRequestEvent[] => {
    const request = requestTo(reviews, team)
    if (request === undefined) return []
    return [{ type: 'TeamReviewRequestRemoved', data: { repoId, index, reviewId: request.id, team } }]
  })
  const ofPeople = reviewers.flatMap(({ id }): PullRequestEvent[] => {
    const own = reviews.filter((review) => review.reviewer.id === id)
    const request = own.find(({ kind }) => kind === 'request')
    if (request === undefined) return []
    const restored = supersededBy(request, own).at(-1) ?? null
    const { id: reviewId, reviewer } = request
    return [{ type: 'ReviewRequestRemoved', data: { repoId, index, reviewId, reviewer, restored } }]
  })
  return [...ofPeople, ...ofTeams]
}
