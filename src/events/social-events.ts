/** What people do with what others have made: reactions, and the repositories that they star and watch. */
import type { AccountRef, IssueRef } from './refs.ts'

/** One reaction of one user to an issue or pull request, or to a comment on it. */
interface ReactionData extends IssueRef {
  /** Null: the reaction is to the issue itself. */
  commentId: number | null
  user: AccountRef
  /** Gitea's name of it, such as `+1` or `heart`. */
  reaction: string
}

/** In `issue-<repoId>.<index>` and in `pull-<repoId>.<index>`. */
export type ReactionEvent =
  | { type: 'ReactionAdded'; data: ReactionData }
  | { type: 'ReactionRemoved'; data: ReactionData }

interface FollowData {
  repoId: number
  user: AccountRef
}

/** `follow-<repoId>.<userId>`. A removal without an actor: the user may not read the repository any more, or is gone. */
export type FollowEvent =
  | { type: 'RepositoryStarred'; data: FollowData }
  | { type: 'RepositoryUnstarred'; data: FollowData }
  | { type: 'RepositoryWatched'; data: FollowData }
  | { type: 'RepositoryUnwatched'; data: FollowData }

/** A public key of SSH. */
export interface KeyData {
  /** Unique on the server. */
  keyId: number
  title: string
  /** As OpenSSH writes it. */
  key: string
  /** `SHA256:…` */
  fingerprint: string
  readOnly: boolean
}

/** `ssh-key-<digest>`: of the fingerprint. */
export type SshKeyEvent =
  | { type: 'SshKeyAdded'; data: KeyData & { user: AccountRef } }
  | { type: 'SshKeyRemoved'; data: KeyData & { user: AccountRef } }

/** `deploy-key-<repoId>.<digest>` */
export type DeployKeyEvent =
  | { type: 'DeployKeyAdded'; data: KeyData & { repoId: number } }
  | { type: 'DeployKeyRemoved'; data: KeyData & { repoId: number } }

/** `subscription-<repoId>.<index>.<userId>` */
export type SubscriptionEvent =
  | { type: 'IssueSubscribed'; data: IssueRef & { user: AccountRef } }
  | { type: 'IssueUnsubscribed'; data: IssueRef & { user: AccountRef } }

export type NotificationEvent =
  /** In the stream of the issue or pull request, after the text: these people are called in it. */
  | { type: 'UsersMentioned'; data: IssueRef & { commentId: number | null; users: AccountRef[] } }
  /** `reads-<userId>`: what happened up to that time has this status for the user. */
  | {
      type: 'NotificationMarked'
      data: IssueRef & { user: AccountRef; status: 'read' | 'unread' | 'pinned'; upTo: string }
    }

export type SocialEvent =
  | ReactionEvent
  | FollowEvent
  | SshKeyEvent
  | DeployKeyEvent
  | SubscriptionEvent
  | NotificationEvent
