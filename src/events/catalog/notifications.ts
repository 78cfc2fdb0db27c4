/** Follows, subscriptions and read status of a user. */
import { Type } from 'typebox'
import { AccountRef, type EventsOf, OrNull, ofIssue, Text, Whole } from './parts.ts'

const Follow = Type.Object({ repoId: Whole, user: AccountRef })

/** `follow-<repoId>.<userId>`. A removal without an actor: the user has lost access, or was deleted. */
export const followEvents = {
  RepositoryStarred: Follow,
  RepositoryUnstarred: Follow,
  RepositoryWatched: Follow,
  RepositoryUnwatched: Follow,
}
export type FollowEvent = EventsOf<typeof followEvents>

const ofReader = { ...ofIssue, user: AccountRef }

/** `subscription-<repoId>.<index>.<userId>` */
export const subscriptionEvents = {
  IssueSubscribed: Type.Object(ofReader),
  IssueUnsubscribed: Type.Object(ofReader),
}
export type SubscriptionEvent = EventsOf<typeof subscriptionEvents>

export const notificationEvents = {
  /** In the stream of the issue or pull request, after the text: the mentioned users. */
  UsersMentioned: Type.Object({ ...ofIssue, commentId: OrNull(Whole), users: Type.Array(AccountRef) }),
  /** `reads-<userId>`: notifications up to that time have this status for the user. */
  NotificationMarked: Type.Object({
    ...ofReader,
    status: Type.Enum(['read', 'unread', 'pinned']),
    upTo: Text,
  }),
}
export type NotificationEvent = EventsOf<typeof notificationEvents>

/** `reads-<userId>`: the user has seen all activity before this event. */
export const readEvents = { IssueRead: Type.Object(ofReader) }
export type ReadEvent = EventsOf<typeof readEvents>
