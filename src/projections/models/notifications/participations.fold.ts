/**
 * The relation of a user to an issue or pull request, and what the user has seen of it. It is created when the user
 * opens it, comments, reviews, is assigned, mentioned or requested, subscribes, or marks it as read.
 */
import type { AccountRef, IssueRef } from '../../../events/catalog/parts.ts'
import type { Envelope } from '../../../events/domain-events.ts'
import { LOG_START, type Position } from '../../../events/store/event-store.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { issueId } from '../issues/issue-selection.ts'

export interface ParticipationDocument extends IssueRef {
  userId: number
  /** Whether the user is notified of other users' activity. */
  active: boolean
  /** The user's explicit choice; null without one. */
  subscribed: boolean | null
  /** Time when it last concerned the user, by which pinned notifications are sorted. */
  since: string
  /** Time and position of the last assignment, mention or request; empty and 0 without one. */
  namedAt: string
  namedTo: Position
  /** Position up to which activity is read; 0 for unread. Not a time, because clocks of servers differ. */
  seenTo: Position
  /** Marks activity up to a time and before a position as read; null without a mark. */
  marked: { upTo: string; before: Position } | null
  pinned: boolean
}

export const participationId = ({ repoId, index }: IssueRef, userId: number) =>
  `${issueId(repoId, index)}.${userId}`

type Before = ParticipationDocument | undefined

function begun(before: Before, id: string): ParticipationDocument {
  if (before !== undefined) return before
  const [repoId = 0, index = 0, userId = 0] = id.split('.').map(Number)
  const nothing = {
    since: '',
    namedAt: '',
    namedTo: LOG_START,
    seenTo: LOG_START,
    marked: null,
    pinned: false,
  }
  return { repoId, index, userId, active: false, subscribed: null, ...nothing }
}

/** Records an action of the user, who has then seen earlier activity. */
function acted(before: Before, id: string, { position, metadata: { at } }: Envelope): ParticipationDocument {
  const document = begun(before, id)
  return { ...document, active: document.subscribed !== false, since: at, seenTo: position }
}

/** Records a mention of the user. */
function named(before: Before, id: string, { position, metadata: { at } }: Envelope): ParticipationDocument {
  const document = begun(before, id)
  return { ...document, active: document.subscribed !== false, since: at, namedAt: at, namedTo: position }
}

/** Records a review request to the user or a team of the user, unless the user made it. */
const requested = (before: Before, event: Envelope, id: string) => {
  const { actor } = event.metadata
  return (actor !== null && isOf(id, actor) ? acted : named)(before, id, event)
}

const idsOf = (issue: IssueRef, people: readonly Pick<AccountRef, 'id'>[]) => [
  ...new Set(people.map(({ id }) => participationId(issue, id))),
]
const isOf = (id: string, { id: userId }: AccountRef) => id.endsWith(`.${userId}`)

export const participationFold: Fold<ParticipationDocument> = foldOf({
  name: 'participations',
  indexes: [
    { userId: 1, pinned: 1, since: -1 },
    { repoId: 1, index: 1, subscribed: 1, userId: 1 },
  ],
  version: 5,
  staysUntilRemoved: true,
  ids({ data }) {
    if ('poster' in data) return idsOf(data, [data.poster, ...data.assignees])
    if ('author' in data) return idsOf(data, [data.author])
    if ('added' in data) return idsOf(data, data.added)
    if ('users' in data) return idsOf(data, data.users)
    if ('reviewer' in data) return idsOf(data, [data.reviewer])
    if ('members' in data)
      return idsOf(
        data,
        data.members.map((id) => ({ id })),
      )
    return idsOf(data, [data.user])
  },
  becomes: {
    IssueOpened: (before, event, id) => (isOf(id, event.data.poster) ? acted : named)(before, id, event),
    PullRequestOpened: (before, event, id) =>
      (isOf(id, event.data.poster) ? acted : named)(before, id, event),
    CommentAdded: (before, event, id) => acted(before, id, event),
    ReviewSubmitted: (before, event, id) => acted(before, id, event),
    ReviewCommentAdded: (before, event, id) => acted(before, id, event),
    AssigneesChanged: requested,
    ReviewRequested: requested,
    TeamReviewRequested: requested,
    UsersMentioned: (before, event, id) => named(before, id, event),
    IssueSubscribed(before, { position, metadata: { at } }, id) {
      const document = begun(before, id)
      const hasSeen = document.seenTo > LOG_START || document.marked !== null
      const seenTo = hasSeen ? document.seenTo : position
      return { ...document, active: true, subscribed: true, since: at, seenTo }
    },
    IssueUnsubscribed: (before, _, id) => ({ ...begun(before, id), active: false, subscribed: false }),
    IssueRead: (before, { position }, id) => ({ ...begun(before, id), seenTo: position }),
    NotificationMarked(before, { position, data: { status, upTo } }, id) {
      const document = begun(before, id)
      if (status === 'unread') return { ...document, seenTo: LOG_START, marked: null, pinned: false }
      return { ...document, marked: { upTo, before: position }, pinned: status === 'pinned' }
    },
  },
})
