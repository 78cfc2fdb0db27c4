/**
 * What last happened to an issue or pull request of which people are told: an opening, a comment, a close, a push, a
 * merge.
 */
import type { Envelope, IssueRef } from '../events/domain-events.ts'
import { isPullStream } from '../events/streams.ts'
import { issueId } from './issue-selection.ts'
import { type Fold, foldOf } from './read-model.ts'

export interface ActivityDocument extends IssueRef {
  /** The id of the issue: unique on the server. */
  id: number
  isPull: boolean
  at: string
  /** Who did it; 0 for the server itself. */
  by: number
  /** The newest comment; 0 when there is none. */
  commentId: number
}

const now = ({ metadata: { at, actor } }: Envelope) => ({ at, by: actor?.id ?? 0 })

export const activityFold: Fold<ActivityDocument> = foldOf({
  name: 'activities',
  indexes: [{ id: 1 }, { repoId: 1, at: -1 }],
  version: 1,
  ids: ({ data }) => [issueId(data.repoId, data.index)],
  becomes: {
    IssueOpened: (_, event) => opened(event),
    PullRequestOpened: (_, event) => opened(event),
  },
  begins: ['IssueOpened', 'PullRequestOpened'],
  changes: {
    CommentAdded: (_, event) => ({ ...now(event), commentId: event.data.commentId }),
    CommentDeleted: ({ commentId }, { data }) => (commentId === data.commentId ? { commentId: 0 } : {}),
    StatusChanged: (_, event) => now(event),
    PullRequestHeadMoved: (_, event) => now(event),
    PullRequestMerged: (_, event) => now(event),
  },
})

function opened(event: Envelope & { data: IssueRef & { id: number } }): ActivityDocument {
  const { repoId, index, id } = event.data
  return { repoId, index, id, isPull: isPullStream(event.stream), commentId: 0, ...now(event) }
}
