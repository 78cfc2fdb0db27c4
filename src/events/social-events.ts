/** What people do with what others have made: reactions, and the repositories that they star and watch. */

/** An account as events name it: `AccountRef` in `domain-events.ts`, which imports this file. */
interface Person {
  id: number
  login: string
}

/** One reaction of one user to an issue or pull request, or to a comment on it. */
interface ReactionData {
  repoId: number
  index: number
  /** Null: the reaction is to the issue itself. */
  commentId: number | null
  user: Person
  /** Gitea's name of it, such as `+1` or `heart`. */
  reaction: string
}

/** In `issue-<repoId>.<index>` and in `pull-<repoId>.<index>`. */
export type ReactionEvent =
  | { type: 'ReactionAdded'; data: ReactionData }
  | { type: 'ReactionRemoved'; data: ReactionData }

interface FollowData {
  repoId: number
  user: Person
}

/** `follow-<repoId>.<userId>`. A removal without an actor: the user may not read the repository any more, or is gone. */
export type FollowEvent =
  | { type: 'RepositoryStarred'; data: FollowData }
  | { type: 'RepositoryUnstarred'; data: FollowData }
  | { type: 'RepositoryWatched'; data: FollowData }
  | { type: 'RepositoryUnwatched'; data: FollowData }

export type SocialEvent = ReactionEvent | FollowEvent

/** The current schema number of each type's data. */
export const SOCIAL_SCHEMAS = {
  ReactionAdded: 1,
  ReactionRemoved: 1,
  RepositoryStarred: 1,
  RepositoryUnstarred: 1,
  RepositoryWatched: 1,
  RepositoryUnwatched: 1,
} as const satisfies Record<SocialEvent['type'], number>
