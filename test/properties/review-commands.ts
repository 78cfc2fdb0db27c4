/** Random commands to the reviews of pull requests. */
import fc from 'fast-check'
import type { Decision } from '../../src/commands/execution/decider.ts'
import type { ActivePull } from '../../src/commands/pull-requests/pull-request.decider.ts'
import {
  decideDeleteReview,
  decideDismiss,
  decideDraft,
  decideReply,
  decideResolve,
  decideSubmit,
  decideUndismiss,
  type NewComment,
} from '../../src/commands/reviews/review.decider.ts'
import {
  decideRemoveRequests,
  decideRequestReviews,
} from '../../src/commands/reviews/review-request.decider.ts'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import type { PullRequestEvent } from '../../src/events/catalog/pull-requests.ts'
import { VERDICTS } from '../../src/events/catalog/reviews.ts'
import { account, by, command, gone, isAdmin, isWriter, nextId, oneOf, record, sha, text } from './values.ts'

const ref = record({ repoId: oneOf([1, 1, 2]), index: oneOf([2, 2, 4]) })

const onReviews = <Given>(
  name: string,
  given: fc.Arbitrary<Given>,
  decide: (
    state: ActivePull,
    by: AccountRef,
    given: Given,
    next: number,
    /** The id of one of the reviews that were there before. */
    which: number,
  ) => Decision<PullRequestEvent>,
) =>
  command(name, record({ ref, by, given, n: fc.nat({ max: 20 }) }), (world, { ref, by, given, n }) => {
    const next = 10 * nextId(world)
    const now = world.pulls.now(ref)
    const reviews = now.status === 'none' ? [] : now.reviews
    const which = reviews[n % Math.max(1, reviews.length)]?.id ?? 0
    world.pulls.change(ref, by, (state) =>
      state.status === 'none' ? gone : decide(state, by, given, next, which),
    )
  })

const teamRef = oneOf([101, 102]).map((id) => ({ id, name: `team${id}` }))

const review = record({ body: text, commit: sha, lines: fc.array(text, { maxLength: 2 }) })
const written = (
  reviewer: AccountRef,
  { body, commit, lines }: typeof review extends fc.Arbitrary<infer T> ? T : never,
  next: number,
) => ({
  ...{ reviewId: next, reviewer, body, commit },
  comments: lines.map(
    (line, i): NewComment => ({
      ...{ commentId: next + 1 + i, path: 'a', side: 'new', line: 1, commit, base: commit, hunk: '' },
      body: line,
    }),
  ),
})

export const reviewCommands = [
  onReviews('draft', review, (state, by, given, next) => decideDraft(state, written(by, given, next))),
  ...Array.from({ length: 3 }, () =>
    onReviews(
      'submit',
      record({ verdict: oneOf(VERDICTS), review }),
      (state, by, { verdict, review }, next) =>
        decideSubmit(state, verdict, written(by, review, next), {
          official: isWriter(by),
          stale: review.commit !== state.head.sha,
          dismissStale: isAdmin(state.poster),
          drafted: [],
          teams: isWriter(by) ? [101] : [],
        }),
    ),
  ),
  onReviews('delete review', fc.constant(null), (state, by, _given, _next, which) =>
    decideDeleteReview(state, which, { ...by, siteAdmin: isAdmin(by) }),
  ),
  onReviews(
    'reply',
    record({ n: fc.nat({ max: 3 }), body: text, commit: sha }),
    (state, author, given, next, which) => {
      const { n, body, commit } = given
      const to = state.reviews.find(({ id }) => id === which)?.comments[n] ?? 0
      const line = { path: 'a', side: 'new', line: 1, commit, base: commit, hunk: '' } as const
      return decideReply(state, { reviewId: which, to, author, reply: { commentId: next, body, ...line } })
    },
  ),
  onReviews(
    'resolve',
    record({ n: fc.nat({ max: 3 }), is: fc.boolean() }),
    (state, by, { n, is }, _, which) => {
      const commentId = state.reviews.find(({ id }) => id === which)?.comments[n] ?? 0
      return decideResolve(state, { reviewId: which, commentId }, is ? by : null)
    },
  ),
  onReviews('dismiss', fc.boolean(), (state, _, priors, _next, which) =>
    decideDismiss(state, which, { message: 'old', priors }),
  ),
  onReviews('undismiss', fc.constant(null), (state, _by, _given, _next, which) =>
    decideUndismiss(state, which),
  ),
  onReviews('request reviews', fc.array(account, { maxLength: 2 }), (state, _, reviewers, next) =>
    decideRequestReviews(
      state,
      [...new Map(reviewers.map((reviewer) => [reviewer.id, reviewer])).values()].map((reviewer, i) => ({
        ...{ reviewer, reviewId: next + i },
        official: isWriter(reviewer),
      })),
    ),
  ),
  onReviews('ask a team', teamRef, (state, _, team, reviewId) =>
    decideRequestReviews(state, [], [{ team, reviewId, official: team.id === 101, members: [1, 2] }]),
  ),
  onReviews('ask a team no more', teamRef, (state, _, team) => decideRemoveRequests(state, [], [team])),
  onReviews('remove requests', fc.array(account, { maxLength: 2 }), (state, _, reviewers) =>
    decideRemoveRequests(state, reviewers),
  ),
]
