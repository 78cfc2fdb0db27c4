/**
 * The last notifiable activity of an issue or pull request (an opening, comment, review, close, push or merge) and its
 * participants. `participations.fold.ts` has what each participant has seen.
 */

import type { IssueRef } from '../../../events/catalog/parts.ts'
import type { Envelope } from '../../../events/domain-events.ts'
import type { Position } from '../../../events/store/event-store.ts'
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { issueId } from '../issues/issue-selection.ts'

export interface ActivityDocument extends IssueRef {
  /** The id of the issue: unique on the server. */
  id: number
  isPull: boolean
  at: string
  /** Position of this activity in the log. */
  position: Position
  /** Id of the actor; 0 for the server. */
  by: number
  /** Id of the newest comment; 0 without one. */
  commentId: number
  /** Ids of the users that are notified, sorted. */
  participants: number[]
  /** Ids of the users that have unsubscribed. */
  left: number[]
  /** Time of the last activity or mention, by which lists are sorted. */
  touchedAt: string
}

type People = Pick<ActivityDocument, 'participants' | 'left'>

const now = ({ position, metadata: { at, actor } }: Envelope) => ({
  ...{ at, position, by: actor?.id ?? 0, touchedAt: at },
})

/** Adds participants, except for unsubscribed users. */
function withPeople({ participants, left }: People, ids: readonly number[]): Pick<People, 'participants'> {
  const more = ids.filter((id) => !participants.includes(id) && !left.includes(id))
  return { participants: more.length === 0 ? participants : withOthers(participants, more) }
}

/** Merges the ids, each once, sorted. */
const withOthers = (ids: readonly number[], others: readonly number[]) =>
  [...new Set([...ids, ...others])].sort((a, b) => a - b)

/** Records a mention. */
const named = (before: ActivityDocument, { metadata }: Envelope, ids: readonly number[]) => ({
  ...withPeople(before, ids),
  touchedAt: metadata.at,
})

const idsOf = (people: readonly { id: number }[]) => people.map(({ id }) => id)

export const activityFold: Fold<ActivityDocument> = foldOf({
  name: 'activities',
  indexes: [{ id: 1 }, { repoId: 1, touchedAt: -1 }, { touchedAt: -1 }],
  arrays: ['participants'],
  version: 6,
  staysUntilRemoved: true,
  ids: ({ data }) => [issueId(data.repoId, data.index)],
  becomes: {
    IssueOpened: (_, event) => opened(event),
    PullRequestOpened: (_, event) => opened(event),
    IssueDeleted: () => undefined,
  },
  begins: ['IssueOpened', 'PullRequestOpened'],
  creates: ['IssueOpened', 'PullRequestOpened'],
  changes: {
    CommentAdded: (before, event) => ({
      ...withPeople(before, [event.data.author.id]),
      ...now(event),
      commentId: event.data.commentId,
    }),
    ReviewSubmitted: (before, event) => ({ ...withPeople(before, [event.data.reviewer.id]), ...now(event) }),
    ReviewCommentAdded: (before, event) => ({ ...withPeople(before, [event.data.author.id]), ...now(event) }),
    CommentDeleted: ({ commentId }, { data }) => (commentId === data.commentId ? { commentId: 0 } : {}),
    StatusChanged: (_, event) => now(event),
    PullRequestHeadMoved: (_, event) => now(event),
    PullRequestMerged: (_, event) => now(event),
    AssigneesChanged: (before, event) => named(before, event, idsOf(event.data.added)),
    ReviewRequested: (before, event) => named(before, event, [event.data.reviewer.id]),
    TeamReviewRequested: (before, event) => named(before, event, event.data.members),
    UsersMentioned: (before, event) => named(before, event, idsOf(event.data.users)),
    IssueSubscribed: ({ participants, left }, { data: { user } }) => ({
      participants: withOthers(participants, [user.id]),
      left: left.filter((id) => id !== user.id),
    }),
    IssueUnsubscribed: ({ participants, left }, { data: { user } }) => ({
      participants: participants.filter((id) => id !== user.id),
      left: withOthers(left, [user.id]),
    }),
  },
})

function opened(
  event: Envelope & {
    data: IssueRef & { id: number; poster: { id: number }; assignees: readonly { id: number }[] }
  },
): ActivityDocument {
  const { repoId, index, id, poster, assignees } = event.data
  const participants = withOthers([poster.id], idsOf(assignees))
  const isPull = isPullStream(event.stream)
  return { repoId, index, id, isPull, commentId: 0, participants, left: [], ...now(event) }
}
