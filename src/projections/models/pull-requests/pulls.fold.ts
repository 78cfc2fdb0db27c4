/** Pull requests. Lists and details read these documents, without git. */

import type { TeamRef } from '../../../events/catalog/organizations.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { BranchPoint, DiffStat, ScheduledMerge } from '../../../events/catalog/pull-requests.ts'
import type { EventOf } from '../../../events/handlers.ts'
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { renamedBranch } from '../branches/renamed-branch.ts'
import {
  DISCUSSION_VERSION,
  discussionChanges,
  erasedPullTexts,
  openedDiscussion,
  stateOf,
} from '../issues/discussion.ts'
import type { IssueDocument } from '../issues/issues.fold.ts'

/** Lacks the fields of an issue that only lists of issues filter by. */
export interface PullDocument
  extends Omit<IssueDocument, 'isPull' | 'assigneeIds' | 'mergedAt' | 'reviewerIds' | 'mentionedIds'> {
  status: 'open' | 'closed' | 'merged'
  head: BranchPoint
  base: BranchPoint
  /** `repoId:branch` of head and base, to look up the pull requests of a branch that moved. */
  headKey: string
  baseKey: string
  headSha: string
  mergeBase: string
  diff: DiffStat
  mergeable: boolean
  /** The files in conflict, from the last check. */
  conflicts: string[]
  allowMaintainerEdit: boolean
  merged: { commit: string; at: string; by: AccountRef } | null
  /** Whether a merge has started and its result is not recorded yet. After a crash, the next start finishes it. */
  merging: boolean
  schedule: ScheduledMerge | null
  scheduled: boolean
  /** Requested reviewers without a review yet. */
  requestedReviewers: AccountRef[]
  requestedReviewerIds: number[]
  /** Comments on lines in submitted reviews. */
  reviewComments: number
  /** Requested teams; absent before the first request. */
  requestedTeams?: TeamRef[]
}

export const pullId = (repoId: number, index: number) => `${repoId}.${index}`
export const branchKey = (repoId: number, branch: string) => `${repoId}:${branch}`

export const pullFold: Fold<PullDocument> = foldOf({
  name: 'pulls',
  indexes: [
    { repoId: 1, state: 1, index: 1 },
    { repoId: 1, state: 1, updatedAt: 1, index: 1 },
    { repoId: 1, state: 1, closedAt: 1, index: 1 },
    { repoId: 1, state: 1, comments: 1, index: 1 },
    { repoId: 1, index: 1 },
    { repoId: 1, updatedAt: 1, index: 1 },
    { repoId: 1, closedAt: 1, index: 1 },
    { repoId: 1, comments: 1, index: 1 },
    { headKey: 1, status: 1 },
    { baseKey: 1, status: 1 },
    { repoId: 1, milestoneId: 1, state: 1, index: 1 },
    { repoId: 1, posterId: 1, state: 1, index: 1 },
    { merging: 1 },
    { scheduled: 1, repoId: 1 },
  ],
  arrays: ['labelIds', 'dependencyKeys', 'requestedReviewerIds'],
  version: 8 + DISCUSSION_VERSION,
  staysUntilRemoved: true,
  // Most of these events are also of issues.
  ids: ({ stream, data }) => (isPullStream(stream) ? [pullId(data.repoId, data.index)] : []),
  becomes: {
    PullRequestOpened(_, { data, metadata: { at } }) {
      const { poster, head, base, mergeBase, diff, mergeable, labels, milestone } = data
      const [dependencies, schedule, requestedReviewers] = [[], null, []]
      return Object.assign(openedDiscussion(data), {
        posterId: poster.id,
        head,
        base,
        mergeBase,
        diff,
        mergeable,
        state: 'open' as const,
        status: 'open' as const,
        conflicts: [],
        allowMaintainerEdit: false,
        merged: null,
        merging: false,
        schedule,
        comments: 0,
        reviewComments: 0,
        createdAt: at,
        updatedAt: at,
        closedAt: null,
        requestedReviewers,
        ...derived({ head, base, labels, milestone, dependencies, schedule, requestedReviewers }),
      })
    },
  },
  begins: ['PullRequestOpened'],
  creates: ['PullRequestOpened'],
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: {
    ...discussionChanges,
    ...erasedPullTexts,
    ErasureFinished: ({ updatedAt }) => ({ updatedAt }),
    StatusChanged: (_, { data: { closed }, metadata }) => ({
      closed,
      state: stateOf(closed),
      status: stateOf(closed),
      closedAt: closed ? metadata.at : null,
    }),
    PullRequestHeadMoved: ({ head }, { data: { to, mergeBase, diff } }) => ({
      head: { ...head, sha: to },
      mergeBase,
      diff,
    }),
    // Results of the server's checks and steps of a merge are not updates: `updatedAt` stays the same.
    MergeabilityChecked: ({ base, updatedAt }, { data: { base: sha, mergeable, conflicts } }) => ({
      base: { ...base, sha },
      mergeable,
      conflicts,
      updatedAt,
    }),
    MergeBaseMoved: ({ updatedAt }, { data: { to, diff } }) => ({ mergeBase: to, diff, updatedAt }),
    MergeStarted: ({ updatedAt }) => ({ merging: true, updatedAt }),
    MergeFailed: ({ updatedAt }) => ({ merging: false, updatedAt }),
    TargetBranchChanged: (_, { data: { base, mergeBase, diff } }) => ({ base, mergeBase, diff }),
    // A rename does not change the pull request, so `updatedAt` stays.
    PullRequestBranchRenamed: (pull, event) => ({ ...renamedBranch(pull, event), updatedAt: pull.updatedAt }),
    MaintainerEditChanged: (_, { data }) => ({ allowMaintainerEdit: data.allowed }),
    PullRequestMerged: (pull, { data: { commit, head, mergeBase, mergedBy }, metadata: { at } }) => ({
      state: 'closed',
      status: 'merged',
      closed: true,
      head: { ...pull.head, sha: head },
      mergeBase: mergeBase ?? pull.mergeBase,
      merged: { commit, at, by: mergedBy },
      merging: false,
      schedule: null,
      mergeable: false,
      closedAt: at,
    }),
    HeadBranchDeleted: () => ({}),
    HeadBranchKept: () => ({}),
    MergeScheduled: (_, { data: { repoId: _repoId, index: _index, ...schedule } }) => ({ schedule }),
    MergeScheduleCanceled: () => ({ schedule: null }),
    ScheduledMergeRefused: () => ({ schedule: null }),
    CommentAdded: ({ comments }) => ({ comments: comments + 1 }),
    CommentEdited: () => ({}),
    CommentDeleted: ({ comments }) => ({ comments: comments - 1 }),
    ReviewRequested: ({ requestedReviewers }, { data: { reviewer } }) => ({
      requestedReviewers: [...requestedReviewers, reviewer],
    }),
    ReviewRequestRemoved: withoutRequest,
    TeamReviewRequested: ({ requestedTeams = [] }, { data: { team } }) => ({
      requestedTeams: [...requestedTeams, team],
    }),
    TeamReviewRequestRemoved: (pull, { data: { team } }) => withoutTeams(pull, [team.id]),
    ReviewSubmitted: (pull, event) => ({
      comments: pull.comments + 1,
      ...withoutRequest(pull, event),
      ...withoutTeams(pull, event.data.answeredTeams),
    }),
    ReviewDismissed: () => ({}),
    ReviewUndismissed: () => ({}),
    ReviewCommentAdded: ({ reviewComments }) => ({ reviewComments: reviewComments + 1 }),
    ReviewDeleted: ({ comments, reviewComments }, { data }) => ({
      comments: comments - 1,
      reviewComments: reviewComments - data.comments.length,
    }),
  },
  derived,
})

/** Removes reviewers that have answered or were released. */
function withoutRequest(
  { requestedReviewers }: PullDocument,
  { data: { reviewer } }: EventOf<'ReviewRequestRemoved' | 'ReviewSubmitted'>,
) {
  return { requestedReviewers: requestedReviewers.filter(({ id }) => id !== reviewer.id) }
}

const withoutTeams = ({ requestedTeams = [] }: PullDocument, ids: readonly number[] | undefined) =>
  ids === undefined ? {} : { requestedTeams: requestedTeams.filter(({ id }) => !ids.includes(id)) }

type Found = Pick<
  PullDocument,
  'head' | 'base' | 'labels' | 'milestone' | 'dependencies' | 'schedule' | 'requestedReviewers'
>

/** Returns the derived fields that serve look-ups only. */
function derived(found: Found) {
  const { head, base, labels, milestone, dependencies, schedule, requestedReviewers } = found
  return {
    headKey: branchKey(head.repoId, head.branch),
    baseKey: branchKey(base.repoId, base.branch),
    headSha: head.sha,
    labelIds: labels.map(({ id }) => id),
    milestoneId: milestone?.id ?? null,
    dependencyKeys: dependencies.map(({ repoId, index }) => pullId(repoId, index)),
    scheduled: schedule !== null,
    requestedReviewerIds: requestedReviewers.map(({ id }) => id),
  }
}
