/** Decides the deletion of an issue, on its whole stream with the comments. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { CommentEvent, CommentsEvent } from '../../events/catalog/comments.ts'
import type { IssueEvent } from '../../events/catalog/issues.ts'
import { type Discussion, discussionChanges } from '../../projections/models/issues/discussion.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { entriesOf, type IdMap, noIds, valueAt, withId, withoutId } from '../execution/id-map.ts'

/** An issue with the file uuids of each comment. */
type WholeIssue = { status: 'none' } | ({ status: 'there'; comments: IdMap<readonly string[]> } & Discussion)
type WholeIssueEvent = IssueEvent | CommentEvent | CommentsEvent

/** Without snapshots, since an issue is deleted once. */
export const wholeIssueDecider: Decider<WholeIssue, WholeIssueEvent> = deciderOf({
  initialState: { status: 'none' },
  becomes: {
    IssueOpened: (_, { data }) => ({
      ...data,
      status: 'there',
      closed: false,
      dependencies: [],
      comments: noIds<readonly string[]>(),
    }),
    IssueDeleted: () => ({ status: 'none' }),
  },
  exists: (state: WholeIssue) => state.status === 'there',
  changes: {
    ...discussionChanges,
    CommentAdded: ({ comments }, { data }) => ({ comments: withId(comments, data.commentId, []) }),
    CommentDeleted: ({ comments }, { data }) => ({ comments: withoutId(comments, data.commentId) }),
    CommentEdited: () => ({}),
    AttachmentAdded: ({ comments }, { data: { commentId, attachment } }) => ({
      comments: withFiles(comments, commentId, (files) => [...files, attachment.uuid]),
    }),
    AttachmentRenamed: () => ({}),
    AttachmentDeleted: ({ comments }, { data: { commentId, uuid } }) => ({
      comments: withFiles(comments, commentId, (files) => files.filter((file) => file !== uuid)),
    }),
    CommentsDeleted: () => ({}),
  },
})

function withFiles(
  comments: IdMap<readonly string[]>,
  commentId: number,
  next: (files: readonly string[]) => string[],
): IdMap<readonly string[]> {
  const files = valueAt(comments, commentId)
  return files === undefined ? comments : withId(comments, commentId, next(files))
}

/** Number of comments that one event deletes: a read model must not change in thousands of places for one event. */
const COMMENTS_PER_EVENT = 500

/** Deletes the issue with its comments. Later events have no effect. */
export function decideDeleteIssue(state: WholeIssue): Decision<WholeIssueEvent> {
  if (state.status === 'none') return refuse.notFound('issue not found')
  const { repoId, index, closed, milestone, assets = [] } = state
  const comments = [...entriesOf(state.comments)]
  const events: WholeIssueEvent[] = []
  for (let i = 0; i < comments.length; i += COMMENTS_PER_EVENT) {
    const part = comments.slice(i, i + COMMENTS_PER_EVENT)
    const data = { comments: part.map(([id]) => id), files: part.flatMap(([, files]) => files) }
    events.push({ type: 'CommentsDeleted', data: { repoId, index, ...data } })
  }
  const files = assets.map(({ uuid }) => uuid)
  return [...events, { type: 'IssueDeleted', data: { repoId, index, closed, milestone, files } }]
}
