/** What the data of the events of reviews looks like, for the check of events as they are read. */
import { account, issue, team } from './ref-shapes.ts'
import { type ReviewEvent, type ReviewRules, SIDES, VERDICTS } from './review-events.ts'
import { type Checks, flag, list, object, optional, orNull, text, whole, word } from './shapes.ts'

type DataOf<T extends ReviewEvent['type']> = Extract<ReviewEvent, { type: T }>['data']

const review = { ...issue, reviewId: whole }
const comment: Checks<DataOf<'ReviewCommentDrafted'>> = {
  ...review,
  commentId: whole,
  author: account,
  path: text,
  side: word(...SIDES),
  line: whole,
  commit: text,
  base: text,
  hunk: text,
  body: text,
}
const ids = list(whole)

/** The demands of a branch protection on reviews. */
export const reviewRules = object<ReviewRules>({
  required: whole,
  approvers: orNull(ids),
  approverTeams: optional(ids),
  blockOnRejected: flag,
  blockOnRequests: flag,
  dismissStale: flag,
  ignoreStale: flag,
})

/** The checks of the fields, by event type. */
export const reviewShapes: { readonly [T in ReviewEvent['type']]: Checks<DataOf<T>> } = {
  ReviewDrafted: { ...review, reviewer: account, body: text, commit: text, mergeBase: optional(text) },
  ReviewCommentDrafted: comment,
  ReviewDraftDiscarded: { ...review, reviewer: account, comments: ids },
  ReviewSubmitted: {
    ...review,
    reviewer: account,
    verdict: word(...VERDICTS),
    body: text,
    commit: text,
    mergeBase: optional(text),
    official: flag,
    stale: flag,
    comments: ids,
    superseded: ids,
    answered: ids,
    answeredTeams: optional(ids),
    restored: optional(ids),
  },
  ReviewCommentAdded: { ...comment, replyTo: optional(whole) },
  ReviewCommentResolved: { ...review, commentId: whole, resolver: orNull(account) },
  ReviewDeleted: { ...review, reviewer: account, comments: ids },
  ReviewDismissed: { ...review, reviewer: account, dismissed: ids, message: text },
  ReviewUndismissed: { ...review, reviewer: account },
  ReviewsOutdated: {
    ...issue,
    head: text,
    stale: ids,
    current: ids,
    dismissed: ids,
    official: optional(ids),
    unofficial: optional(ids),
  },
  ReviewRequested: { ...review, reviewer: account, official: flag, superseded: ids },
  ReviewRequestRemoved: { ...review, reviewer: account, restored: orNull(whole) },
  TeamReviewRequested: { ...review, team, official: flag, members: ids },
  TeamReviewRequestRemoved: { ...review, team },
}
