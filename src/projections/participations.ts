/**
 * What ties a user to an issue or pull request, and what the user has seen of it: one document for both. It is made when
 * the user opens it, comments, is assigned, mentioned or asked for a review, subscribes, or marks it as read.
 */
import type { AccountRef, Envelope, IssueRef } from '../events/domain-events.ts'
import { issueId } from './issue-selection.ts'
import { type Fold, foldOf } from './read-model.ts'

export interface ParticipationDocument extends IssueRef {
  userId: number
  /** Whether the user hears of what others do. */
  active: boolean
  /** What the user said about it; null: nothing. */
  subscribed: boolean | null
  /** When it last concerned the user: the pinned ones begin with the latest. */
  since: string
  /** When the user was last assigned, mentioned or asked; empty when never. */
  namedAt: string
  /** What happened up to this time is read; empty: nothing is. */
  seenAt: string
  pinned: boolean
}

export const participationId = ({ repoId, index }: IssueRef, userId: number) =>
  `${issueId(repoId, index)}.${userId}`

type Before = ParticipationDocument | undefined

function begun(before: Before, id: string): ParticipationDocument {
  if (before !== undefined) return before
  const [repoId = 0, index = 0, userId = 0] = id.split('.').map(Number)
  const nothing = { since: '', namedAt: '', seenAt: '', pinned: false }
  return { repoId, index, userId, active: false, subscribed: null, ...nothing }
}

/** The user did something: what was there before, the user has seen. */
function acted(before: Before, id: string, at: string): ParticipationDocument {
  const document = begun(before, id)
  return { ...document, active: document.subscribed !== false, since: at, seenAt: at }
}

/** Somebody named the user. */
function named(before: Before, id: string, at: string): ParticipationDocument {
  const document = begun(before, id)
  return { ...document, active: document.subscribed !== false, since: at, namedAt: at }
}

/** Somebody asked the user, or a team of the user, for a review. Nobody asks themselves. */
const asked = (before: Before, { metadata: { actor, at } }: Envelope, id: string) =>
  (actor !== null && isOf(id, actor) ? acted : named)(before, id, at)

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
  version: 2,
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
    IssueOpened: (before, { data, metadata }, id) =>
      (isOf(id, data.poster) ? acted : named)(before, id, metadata.at),
    PullRequestOpened: (before, { data, metadata }, id) =>
      (isOf(id, data.poster) ? acted : named)(before, id, metadata.at),
    CommentAdded: (before, { metadata }, id) => acted(before, id, metadata.at),
    AssigneesChanged: (before, { metadata: { actor, at } }, id) =>
      (actor !== null && isOf(id, actor) ? acted : named)(before, id, at),
    ReviewRequested: asked,
    TeamReviewRequested: asked,
    UsersMentioned: (before, { metadata: { at } }, id) => named(before, id, at),
    IssueSubscribed: (before, { metadata: { at } }, id) => ({
      ...begun(before, id),
      ...{ active: true, subscribed: true, since: at, seenAt: before?.seenAt || at },
    }),
    IssueUnsubscribed: (before, _, id) => ({ ...begun(before, id), active: false, subscribed: false }),
    IssueRead: (before, { metadata: { at } }, id) => ({ ...begun(before, id), seenAt: at }),
    NotificationMarked: (before, { data: { status, upTo } }, id) => ({
      ...begun(before, id),
      seenAt: status === 'unread' ? '' : upTo,
      pinned: status === 'pinned',
    }),
  },
})
