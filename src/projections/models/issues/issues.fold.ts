/**
 * Issues, and the part of pull requests that they share with issues. They are one collection, because they share their
 * numbers and most lists show both. The other fields of pull requests are in `pulls.ts`.
 */

import { type Fold, foldOf } from '../../projector/read-model.ts'
import {
  DISCUSSION_VERSION,
  type Discussion,
  discussionChanges,
  openedDiscussion,
  stateOf,
} from './discussion.ts'
import { type IssueSelection, issueId, type OpenedEvent, selectionOf } from './issue-selection.ts'
import { issueTextFold } from './issue-texts.fold.ts'

export interface IssueDocument extends Discussion, IssueSelection {
  /** The keys of its dependencies. */
  dependencyKeys: string[]
  /** Time of the merge; null for an issue and without a merge. */
  mergedAt: string | null
  /** As in Gitea, a review of a pull request counts as one. */
  comments: number
  createdAt: string
  closedAt: string | null
  /** Only for filters: the words of the title, the body and the comments, which are in `issue-texts.fold.ts`. */
  words?: readonly string[]
}

export const issueFold: Fold<IssueDocument> = foldOf({
  name: 'issues',
  // Lists are sorted newest first. There is one index for each combination of filters.
  indexes: [
    { repoId: 1, state: 1, id: -1 },
    { repoId: 1, isPull: 1, state: 1, id: -1 },
    { repoId: 1, isPull: 1, id: -1 },
    { repoId: 1, id: -1 },
    { state: 1, id: -1 },
    { isPull: 1, state: 1, id: -1 },
    { isPull: 1, id: -1 },
    { id: -1 },
    // To find and count few of many.
    { posterId: 1, repoId: 1, state: 1, isPull: 1, id: -1 },
    { milestoneId: 1, repoId: 1, state: 1, isPull: 1, id: -1 },
    { repoId: 1, updatedAt: 1 },
  ],
  arrays: [
    'assigneeIds',
    'labelIds',
    'dependencyKeys',
    'reviewerIds',
    'requestedReviewerIds',
    'mentionedIds',
  ],
  wordsIn: { words: issueTextFold.collection },
  version: 7 + DISCUSSION_VERSION,
  staysUntilRemoved: true,
  ids: ({ data }) => [issueId(data.repoId, data.index)],
  becomes: {
    IssueOpened(_, event) {
      const issue = openedIssue(event)
      return event.data.ref === undefined ? issue : Object.assign(issue, { ref: event.data.ref })
    },
    PullRequestOpened: (_, event) => openedIssue(event),
    IssueDeleted: () => undefined,
  },
  begins: ['IssueOpened', 'PullRequestOpened'],
  creates: ['IssueOpened', 'PullRequestOpened'],
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: {
    ...discussionChanges,
    ErasureFinished: ({ updatedAt }) => ({ updatedAt }),
    StatusChanged: (_, { data: { closed }, metadata }) => ({ closed, closedAt: closed ? metadata.at : null }),
    PullRequestMerged: (_, { metadata: { at } }) => ({ closed: true, mergedAt: at, closedAt: at }),
    CommentAdded: ({ comments }) => ({ comments: comments + 1 }),
    CommentEdited: () => ({}),
    CommentDeleted: ({ comments }) => ({ comments: comments - 1 }),
    // Only `updatedAt` changes, so that it is the same here and in `pulls`.
    PullRequestHeadMoved: () => ({}),
    TargetBranchChanged: () => ({}),
    MaintainerEditChanged: () => ({}),
    HeadBranchDeleted: () => ({}),
    HeadBranchKept: () => ({}),
    MergeScheduled: () => ({}),
    MergeScheduleCanceled: () => ({}),
    ScheduledMergeRefused: () => ({}),
    ReviewRequested: ({ requestedReviewerIds: ids }, { data: { reviewer } }) => ({
      requestedReviewerIds: [...ids, reviewer.id],
    }),
    ReviewRequestRemoved: ({ requestedReviewerIds: ids }, { data: { reviewer } }) => ({
      requestedReviewerIds: without(ids, reviewer.id),
    }),
    TeamReviewRequested: ({ requestedReviewerIds: ids }, { data: { team } }) => ({
      requestedReviewerIds: [...ids, team.id],
    }),
    TeamReviewRequestRemoved: ({ requestedReviewerIds: ids }, { data: { team } }) => ({
      requestedReviewerIds: without(ids, team.id),
    }),
    ReviewSubmitted: (
      { requestedReviewerIds: ids, reviewerIds, comments },
      { data: { reviewer, answeredTeams = [] } },
    ) => ({
      comments: comments + 1,
      requestedReviewerIds: without(ids, reviewer.id, ...answeredTeams),
      reviewerIds: [...reviewerIds, reviewer.id],
    }),
    // The server finds mentions in existing texts, so `updatedAt` stays.
    UsersMentioned: ({ mentionedIds, updatedAt }, { data: { users } }) => ({
      mentionedIds: [...new Set([...mentionedIds, ...users.map(({ id }) => id)])],
      updatedAt,
    }),
    ReviewDismissed: () => ({}),
    ReviewUndismissed: () => ({}),
    ReviewCommentAdded: () => ({}),
    ReviewDeleted: ({ reviewerIds, comments }, { data: { reviewer } }) => ({
      comments: comments - 1,
      reviewerIds: withoutOne(reviewerIds, reviewer.id),
    }),
  },
  derived: ({ closed, assignees, labels, milestone, dependencies }) => ({
    state: stateOf(closed),
    assigneeIds: assignees.map(({ id }) => id),
    labelIds: labels.map(({ id }) => id),
    milestoneId: milestone?.id ?? null,
    dependencyKeys: dependencies.map(({ repoId, index }) => issueId(repoId, index)),
  }),
})

const without = (ids: readonly number[], ...ended: readonly number[]) =>
  ids.filter((id) => !ended.includes(id))

const withoutOne = (ids: readonly number[], ended: number) => {
  const at = ids.indexOf(ended)
  return ids.filter((_, i) => i !== at)
}

function openedIssue(event: OpenedEvent): IssueDocument {
  // In V8, an object literal with a spread before other fields takes thirty times as long.
  return Object.assign(selectionOf(event), openedDiscussion(event.data), {
    dependencyKeys: [],
    mergedAt: null,
    comments: 0,
    createdAt: event.metadata.at,
    closedAt: null,
  })
}
