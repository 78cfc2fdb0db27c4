/** The protection of branches, in the stream of the repository; and the moves of refs, in `git-<repoId>`. */
import { type Static, Type } from 'typebox'
import { type EventsOf, Flag, OrNull, Text, Whole } from './parts.ts'
import { TagTime } from './tags.ts'

/** The review requirements of a branch protection. */
const ReviewRules = Type.Object({
  /** Number of official approvals that a merge needs. */
  required: Whole,
  /** The ids of the only users whose approvals are official; null: all writers. */
  approvers: OrNull(Type.Array(Whole)),
  /** Only with named approvers: ids of teams whose members are approvers, too. */
  approverTeams: Type.Optional(Type.Array(Whole)),
  /** Whether an official review that requests changes blocks the merge. */
  blockOnRejected: Flag,
  /** Whether an official request for a review blocks the merge until it is answered. */
  blockOnRequests: Flag,
  /** Whether approvals are dismissed when the pull request changes. */
  dismissStale: Flag,
  /** Whether approvals of an earlier state are ignored. */
  ignoreStale: Flag,
})
export type ReviewRules = Static<typeof ReviewRules>

/** A branch protection, as in Gitea: a rule for the branches that match its name. */
const BranchProtection = Type.Object({
  id: Whole,
  /** The name of a branch, or a pattern: `release/*`. */
  rule: Text,
  /** When several rules match a branch, the one with the lowest priority number applies. */
  priority: Whole,
  /** Whether pushes are allowed, for all writers or only for `pushers`. Merges are not affected. */
  push: Flag,
  /** User ids; null: all writers. */
  pushers: OrNull(Type.Array(Whole)),
  /** Only with named pushers: ids of teams whose members may push, too; likewise `mergerTeams`. */
  pusherTeams: Type.Optional(Type.Array(Whole)),
  /** User ids; null: all writers. */
  mergers: OrNull(Type.Array(Whole)),
  mergerTeams: Type.Optional(Type.Array(Whole)),
  statusCheck: Flag,
  /** The contexts (or patterns) that must have succeeded. An empty list means all contexts that were posted. */
  contexts: Type.Array(Text),
  requireSigned: Flag,
  /** Whether a head must contain all commits of the base before it can be merged. */
  blockOutdated: Flag,
  /** Whether the rule also applies to an admin's `force_merge`. */
  blockAdminOverride: Flag,
  /** Present when it has review requirements. */
  reviews: Type.Optional(ReviewRules),
  createdAt: Text,
  updatedAt: Text,
})
export type BranchProtection = Static<typeof BranchProtection>

export const branchProtectionEvents = {
  BranchProtectionSet: Type.Object({ repoId: Whole, protection: BranchProtection }),
  BranchProtectionRemoved: Type.Object({ repoId: Whole, rule: Text }),
}
export type BranchProtectionEvent = EventsOf<typeof branchProtectionEvents>

const Signature = Type.Object({
  name: Text,
  email: Text,
  /** ISO 8601, with the time zone that git recorded. */
  date: Text,
})
export type Signature = Static<typeof Signature>

/**
 * The parts of a commit that lists show, recorded with the update of a ref, so that lists need no git. Long messages
 * and names are cut off.
 */
const CommitSummary = Type.Object({
  sha: Text,
  message: Text,
  author: Signature,
  committer: Signature,
  /** Whether the commit has a signature, good or not. Absent: false. */
  isSigned: Type.Optional(Flag),
})
export type CommitSummary = Static<typeof CommitSummary>

const RefUpdate = Type.Object({
  /** Full name: `refs/heads/…`, `refs/tags/…`, `refs/notes/…` or another kind. Not of pull requests. */
  ref: Text,
  /** The object before the update; null when the ref was created. */
  from: OrNull(Text),
  /** The object after the update; null when the ref was deleted. */
  to: OrNull(Text),
})
export type RefUpdate = Static<typeof RefUpdate>

/** Cause of a ref update. */
export const RefCause = Type.Enum([
  'push',
  'merge',
  'update',
  'fork',
  'auto-init',
  'branch-creation',
  'branch-deletion',
  'branch-rename',
  'tag-creation',
  'tag-deletion',
  // Found at startup, after a crash between the writes to git and to the log.
  'recovered',
])
export type RefCause = Static<typeof RefCause>

/** `git-<repoId>`. Separate from `repo-<id>`, so that pushes never conflict with changes of settings. */
export const gitEvents = {
  RefsUpdated: Type.Object({
    repoId: Whole,
    cause: RefCause,
    refs: Type.Array(RefUpdate),
    /** Values of `--push-option`. The first event of a push has them. */
    options: Type.Optional(Type.Array(Text)),
    /** The new commits of the branches, each once. Other objects are left out. */
    commits: Type.Array(CommitSummary),
    /** The times of the new tags, each object once. */
    tags: Type.Optional(Type.Array(TagTime)),
  }),
}
export type GitEvent = EventsOf<typeof gitEvents>
