/** Reviews on the wire, and the look-up of the review in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { ReviewCommentDocument } from '../../projections/models/reviews/review-comments.fold.ts'
import { FOR_ALL, type ReviewDocument } from '../../projections/models/reviews/reviews.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { discussionUrls } from '../comments/comments.ts'
import { Nullable } from '../nullable.ts'
import { PlainTeamWire, teamsById } from '../organizations/teams.ts'
import { PullParams } from '../pull-requests/pulls.ts'
import { UserWire, usersById } from '../users/users.ts'

export const ReviewParams = Type.Object({ ...PullParams.properties, id: Type.String() })

const STATES = {
  approved: 'APPROVED',
  rejected: 'REQUEST_CHANGES',
  comment: 'COMMENT',
  pending: 'PENDING',
  request: 'REQUEST_REVIEW',
  'team-request': 'REQUEST_REVIEW',
} as const satisfies Record<ReviewDocument['kind'], string>

export const ReviewWire = Type.Object(
  {
    id: Type.Integer(),
    user: Nullable(UserWire),
    team: Nullable(PlainTeamWire),
    state: Type.String(),
    body: Type.String(),
    commit_id: Type.String(),
    stale: Type.Boolean(),
    official: Type.Boolean(),
    dismissed: Type.Boolean(),
    comments_count: Type.Integer(),
    submitted_at: Type.String(),
    updated_at: Type.String(),
    html_url: Type.String(),
    pull_request_url: Type.String(),
  },
  { title: 'PullReview' },
)

/** Returns reviews of one repository as Gitea's `PullReview`, in the given order. One look-up reads all reviewers. */
export async function reviewWires(
  services: Services,
  repository: RepositoryDocument,
  reviews: readonly ReviewDocument[],
): Promise<Static<typeof ReviewWire>[]> {
  const publicUrl = services.publicUrl()
  const [people, teams] = await Promise.all([
    usersById(
      services,
      reviews.map(({ reviewer }) => reviewer.id),
    ),
    teamsById(
      services.views.teams,
      reviews.flatMap(({ kind, reviewer }) => (kind === 'team-request' ? [reviewer.id] : [])),
      [repository],
    ),
  ])
  return reviews.map((review) => {
    const urls = discussionUrls(repository, { ...review, isPull: true }, publicUrl)
    const isOfTeam = review.kind === 'team-request'
    return {
      id: review.id,
      user: isOfTeam ? null : (people.get(review.reviewer.id) ?? null),
      team: isOfTeam ? (teams.get(review.reviewer.id) ?? null) : null,
      state: STATES[review.kind],
      body: review.body,
      commit_id: review.commit,
      stale: review.stale,
      official: review.official,
      dismissed: review.dismissed,
      comments_count: review.comments.length,
      submitted_at: wholeSeconds(review.createdAt),
      updated_at: wholeSeconds(review.updatedAt),
      html_url: urls.html_url,
      pull_request_url: urls.pull_request_url,
    }
  })
}

/** Filters the reviews that a requester may see: only the reviewer and site admins see a draft. */
export function visibleReviews(requester: AccountDocument | null): Filter<ReviewDocument> {
  if (requester?.siteAdmin) return {}
  return { onlyFor: { $in: requester === null ? [FOR_ALL] : [FOR_ALL, requester.id] } }
}

/** Returns the pull request's review with that id. @throws Refused (not found), also for another user's draft */
export async function reviewFor(
  { views }: Services,
  { repoId, index }: PullDocument,
  id: string,
  requester: AccountDocument | null,
): Promise<ReviewDocument> {
  const number = pathNumber(id)
  const review = number === undefined ? undefined : await views.reviews.get(`${number}`)
  const isHidden =
    review !== undefined &&
    review.onlyFor !== FOR_ALL &&
    review.onlyFor !== requester?.id &&
    !requester?.siteAdmin
  if (review?.repoId !== repoId || review.index !== index || isHidden) {
    throw notFoundIn(views.reviews, 'review not found')
  }
  return review
}

export const ReviewCommentWire = Type.Object(
  {
    id: Type.Integer(),
    body: Type.String(),
    user: Nullable(UserWire),
    resolver: Nullable(UserWire),
    pull_request_review_id: Type.Integer(),
    created_at: Type.String(),
    updated_at: Type.String(),
    path: Type.String(),
    commit_id: Type.String(),
    original_commit_id: Type.String(),
    diff_hunk: Type.String(),
    /** The line in the new version of the file; 0 for a line of the old version or a line that is gone. */
    position: Type.Integer(),
    /** The line in the old version of the file; for a line that is gone, the line of the comment when it was written. */
    original_position: Type.Integer(),
    html_url: Type.String(),
    pull_request_url: Type.String(),
  },
  { title: 'PullReviewComment' },
)

/** Returns a line comment of a submitted review. @throws Refused (not found) */
export async function reviewCommentFor(
  { views }: Services,
  repoId: number,
  id: string,
): Promise<ReviewCommentDocument> {
  const number = pathNumber(id)
  const comment = number === undefined ? undefined : await views.reviewComments.get(`${number}`)
  const review = comment?.repoId === repoId ? await views.reviews.get(`${comment.reviewId}`) : undefined
  if (comment === undefined || review?.onlyFor !== FOR_ALL) {
    throw notFoundIn(views.reviewComments, 'review comment not found')
  }
  return comment
}

/** The present place of a line comment. */
export interface Place {
  /** The line in the version of the file on the comment's side; undefined when it is gone. */
  line: number | undefined
  /** The commit in which it has this line. */
  commit: string
}

/** Returns comments of one review as Gitea's `PullReviewComment`, in the given order. */
export async function reviewCommentWires(
  services: Services,
  repository: RepositoryDocument,
  comments: readonly ReviewCommentDocument[],
  placeOf: (comment: ReviewCommentDocument) => Place,
): Promise<Static<typeof ReviewCommentWire>[]> {
  const publicUrl = services.publicUrl()
  const people = await usersById(
    services,
    comments.flatMap(({ author, resolver }) => [author.id, resolver?.id]),
  )
  return comments.map((comment) => {
    const urls = discussionUrls(repository, { ...comment, isPull: true }, publicUrl)
    const { line = comment.line, commit } = placeOf(comment)
    const isNow = comment.side === 'new' && placeOf(comment).line !== undefined
    return {
      id: comment.id,
      body: comment.body,
      user: people.get(comment.author.id) ?? null,
      resolver: comment.resolver && (people.get(comment.resolver.id) ?? null),
      pull_request_review_id: comment.reviewId,
      created_at: wholeSeconds(comment.createdAt),
      updated_at: wholeSeconds(comment.updatedAt),
      path: comment.path,
      commit_id: commit,
      original_commit_id: comment.commit,
      diff_hunk: comment.hunk,
      position: isNow ? line : 0,
      original_position: isNow ? 0 : line,
      html_url: urls.html_url,
      pull_request_url: urls.pull_request_url,
    }
  })
}
