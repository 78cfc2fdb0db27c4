/** Reactions, in `issue-<repoId>.<index>` and in `pull-<repoId>.<index>`. */
import { Type } from 'typebox'
import { AccountRef, type EventsOf, OrNull, ofIssue, Text, Whole } from './parts.ts'

/** One reaction of one user to an issue or pull request, or to a comment on it. */
const Reaction = Type.Object({
  ...ofIssue,
  /** Null: the reaction is to the issue itself. */
  commentId: OrNull(Whole),
  user: AccountRef,
  /** Gitea's name, such as `+1` or `heart`. */
  reaction: Text,
})

export const reactionEvents = { ReactionAdded: Reaction, ReactionRemoved: Reaction }
export type ReactionEvent = EventsOf<typeof reactionEvents>
