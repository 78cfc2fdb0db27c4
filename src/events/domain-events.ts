/**
 * What happened: every event type that Mergelog writes, by the kind of stream that it stands in.
 *
 * An event's data is complete: a reader needs no other table to understand it. A type never changes its
 * meaning; a new shape gets a new number in `schemaOf` and an upcaster in `codec.ts`.
 */
import type { RecordedEvent } from './event-store.ts'
import type { UpgradeEvent } from './upgrade-events.ts'

/** An account as events name it: the id is what counts, the login is for people who read the log. */
export interface AccountRef {
  id: number
  login: string
}

export type AccountKind = 'user' | 'organization'
export type Permission = 'read' | 'write' | 'admin'

/** `user-<id>` */
export type UserEvent =
  | {
      type: 'UserCreated'
      data: { id: number; login: string; email: string; fullName: string; siteAdmin: boolean }
    }
  | {
      type: 'TokenCreated'
      data: { user: AccountRef; tokenId: number; name: string; lastEight: string; scopes: string[] }
    }
  | { type: 'TokenDeleted'; data: { user: AccountRef; tokenId: number; name: string } }

/** `org-<id>` */
export type OrganizationEvent =
  | {
      type: 'OrganizationCreated'
      data: {
        id: number
        login: string
        fullName: string
        description: string
        email: string
        location: string
        website: string
        visibility: string
      }
    }
  | { type: 'MemberSet'; data: { organization: AccountRef; user: AccountRef; permission: Permission } }
  | { type: 'MemberRemoved'; data: { organization: AccountRef; user: AccountRef } }

/** How a merge may come into the base branch; the names are Gitea's. */
export const MERGE_STYLES = [
  'merge',
  'rebase',
  'rebase-merge',
  'squash',
  'fast-forward-only',
  'manually-merged',
] as const
export type MergeStyle = (typeof MERGE_STYLES)[number]
/** How the base branch may come into the head branch. */
export type UpdateStyle = 'merge' | 'rebase'

/** What may be done with the pull requests of a repository. */
export interface MergeSettings {
  /** Styles that may be used. */
  mergeStyles: MergeStyle[]
  defaultMergeStyle: MergeStyle
  allowRebaseUpdate: boolean
  /** What a merge does with the head branch when the request does not say. */
  deleteBranchAfterMerge: boolean
}

/** The settings of a repository that can be edited. */
export interface RepositorySettings {
  name: string
  description: string
  website: string
  private: boolean
  defaultBranch: string
}

/** What holds for the branches that a rule's name matches: Gitea's branch protection. */
export interface BranchProtection {
  /** A branch, or a pattern: `release/*`. */
  rule: string
  /** Rules are asked in this order, lowest first, when several match. */
  priority: number
  /** Whether anyone may push; with `pushers` only they. Merging is another matter. */
  push: boolean
  /** User ids; null: all writers. */
  pushers: number[] | null
  /** User ids; null: all writers. */
  mergers: number[] | null
  statusCheck: boolean
  /** Contexts, or patterns of them, that must have succeeded; none: all that were posted. */
  contexts: string[]
  requireSigned: boolean
  /** Heads that lack commits of the base can't be merged. */
  blockOutdated: boolean
  /** Then `force_merge` of an admin does not help either. */
  blockAdminOverride: boolean
  createdAt: string
  updatedAt: string
}

/** `repo-<id>` */
export type RepositoryEvent =
  | {
      type: 'RepositoryCreated'
      data: {
        repoId: number
        owner: AccountRef & { kind: AccountKind }
        /** The repository that this one is a fork of. */
        parent?: { repoId: number; owner: AccountRef; name: string }
      } & RepositorySettings
    }
  | {
      type: 'RepositoryEdited'
      data: { repoId: number; changes: Partial<RepositorySettings & MergeSettings> }
    }
  | {
      type: 'RepositoryDeleted'
      data: {
        repoId: number
        owner: AccountRef
        name: string
        /** Of a fork: the repository that it was a fork of. */
        parentId?: number
      }
    }
  | { type: 'CollaboratorSet'; data: { repoId: number; user: AccountRef; permission: Permission } }
  | { type: 'CollaboratorRemoved'; data: { repoId: number; user: AccountRef } }
  | { type: 'BranchProtectionSet'; data: { repoId: number; protection: BranchProtection } }
  | { type: 'BranchProtectionRemoved'; data: { repoId: number; rule: string } }

/** Where labels belong: all repositories of an organization share its labels. */
export type LabelScope =
  | { kind: 'repository'; repoId: number }
  | { kind: 'organization'; organizationId: number }

export interface LabelSettings {
  name: string
  /** Six hexadecimal digits in lower case. */
  color: string
  description: string
  /** Of the labels `scope/…` an issue has one at most. */
  exclusive: boolean
  archived: boolean
}

/** A label as events of issues name it: the id is what counts. */
export interface LabelRef {
  id: number
  name: string
}

/** `label-<id>` */
export type LabelEvent =
  | { type: 'LabelCreated'; data: { id: number; scope: LabelScope } & LabelSettings }
  | { type: 'LabelEdited'; data: { id: number; scope: LabelScope; changes: Partial<LabelSettings> } }
  | { type: 'LabelDeleted'; data: { id: number; scope: LabelScope; name: string } }

export interface MilestoneSettings {
  title: string
  description: string
  state: 'open' | 'closed'
  /** ISO 8601; null when there is none. */
  dueOn: string | null
}

/** A milestone as events of issues name it: the id is what counts. */
export interface MilestoneRef {
  id: number
  title: string
}

/** `milestone-<id>` */
export type MilestoneEvent =
  | { type: 'MilestoneCreated'; data: { id: number; repoId: number } & MilestoneSettings }
  | {
      type: 'MilestoneEdited'
      data: { id: number; repoId: number; changes: Partial<MilestoneSettings> }
    }
  | { type: 'MilestoneDeleted'; data: { id: number; repoId: number; title: string } }

export const COMMIT_STATES = ['pending', 'success', 'error', 'failure', 'warning'] as const
export type CommitState = (typeof COMMIT_STATES)[number]

/** `checks-<repoId>.<sha>`: what others say of a commit. */
export type CheckEvent = {
  type: 'CommitStatusPosted'
  data: {
    id: number
    repoId: number
    sha: string
    /** The last one of a context counts. */
    context: string
    state: CommitState
    description: string
    targetUrl: string
    creator: AccountRef
  }
}

/** `reads-<userId>`: up to where a user has seen an issue or pull request; the event's time tells. */
export type ReadEvent = { type: 'IssueRead'; data: { repoId: number; index: number; user: AccountRef } }

export interface Signature {
  name: string
  email: string
  /** ISO 8601 with the zone that git recorded. */
  date: string
}

/** What a list shows of a commit, recorded with the ref that came to it so that no list asks git. */
export interface CommitSummary {
  sha: string
  message: string
  author: Signature
  committer: Signature
}

export interface RefUpdate {
  /** Full name, `refs/heads/…` or `refs/tags/…`. */
  ref: string
  /** Object before; null when the ref was made. */
  from: string | null
  /** Object after; null when the ref was deleted. */
  to: string | null
  /** The commit that a branch came to. */
  commit: CommitSummary | null
}

/** `git-<repoId>`: apart from `repo-` so that pushes never conflict with settings. */
export type GitEvent = {
  type: 'RefsUpdated'
  data: {
    repoId: number
    /** `recovered`: found at start, after a crash between git and the log. */
    cause: 'push' | 'merge' | 'update' | 'fork' | 'auto-init' | 'branch-deletion' | 'recovered'
    refs: RefUpdate[]
  }
}

/** Head and base of a pull request: a branch of a repository and where it stood. */
export interface BranchPoint {
  repoId: number
  branch: string
  sha: string
}

export interface DiffStat {
  additions: number
  deletions: number
  changedFiles: number
}

/** An issue or pull request, as another one names it. */
export interface IssueRef {
  repoId: number
  index: number
}

/**
 * In `pull-<repoId>.<index>` and `issue-<repoId>.<index>` alike: a pull request is an issue with more. Each
 * says all that is so after it, and what it took to get there.
 */
export type DiscussionEvent =
  | { type: 'TitleChanged'; data: IssueRef & { oldTitle: string; title: string } }
  | { type: 'BodyChanged'; data: IssueRef & { body: string } }
  | {
      type: 'StatusChanged'
      data: IssueRef & {
        closed: boolean
        /** The comment that tells of the change. */
        comment: { id: number; kind: 'close' | 'reopen' }
        /** Counted there. */
        milestone: MilestoneRef | null
      }
    }
  | {
      type: 'LabelsChanged'
      data: IssueRef & { labels: LabelRef[]; added: LabelRef[]; removed: LabelRef[] }
    }
  | {
      type: 'MilestoneChanged'
      data: IssueRef & { from: MilestoneRef | null; to: MilestoneRef | null; closed: boolean }
    }
  | {
      type: 'AssigneesChanged'
      data: IssueRef & { assignees: AccountRef[]; added: AccountRef[]; removed: AccountRef[] }
    }
  /** Deadlines are ISO 8601 in the zone in which they were given, at 23:59:59. */
  | { type: 'DeadlineChanged'; data: IssueRef & { from: string | null; to: string | null } }
  | { type: 'DependencyAdded'; data: IssueRef & { dependency: IssueRef } }
  | { type: 'DependencyRemoved'; data: IssueRef & { dependency: IssueRef } }

/** `issue-<repoId>.<index>` */
export type IssueEvent =
  | {
      type: 'IssueOpened'
      data: IssueRef & {
        id: number
        poster: AccountRef
        title: string
        body: string
        labels: LabelRef[]
        milestone: MilestoneRef | null
        assignees: AccountRef[]
        deadline: string | null
      }
    }
  | DiscussionEvent

/** A file that belongs to a comment. */
export interface Attachment {
  /** Server-wide. */
  id: number
  /** Under which the file is stored and downloaded. */
  uuid: string
  name: string
  /** In bytes. */
  size: number
  uploader: AccountRef
}

/** In the streams of issues and pull requests: what people say there. */
export type CommentEvent =
  | { type: 'CommentAdded'; data: IssueRef & { commentId: number; author: AccountRef; body: string } }
  /** Also when a file came to the comment: then with the body that it had. */
  | { type: 'CommentEdited'; data: IssueRef & { commentId: number; body: string } }
  | { type: 'CommentDeleted'; data: IssueRef & { commentId: number } }
  | { type: 'AttachmentAdded'; data: IssueRef & { commentId: number; attachment: Attachment } }
  | {
      type: 'AttachmentRenamed'
      data: IssueRef & { commentId: number; attachmentId: number; name: string }
    }
  | {
      type: 'AttachmentDeleted'
      data: IssueRef & { commentId: number; attachmentId: number; uuid: string }
    }

/** A merge whose intent is recorded: the base branch moves from `from` to `commit`, or the merge failed. */
export interface MergeIntent {
  style: MergeStyle
  baseBranch: string
  from: string
  head: string
  /** Of `from` and `head`; null: as it was known before. */
  mergeBase: string | null
  commit: string
  message: string
  by: AccountRef
  /** Whether the head branch goes when the merge is done. */
  deleteBranch: boolean
}

/** How a scheduled merge is to be done. */
export interface ScheduledMerge {
  style: MergeStyle
  title: string
  message: string
  deleteBranch: boolean
  by: AccountRef
}

/** `pull-<repoId>.<index>` */
export type PullRequestEvent =
  | {
      type: 'PullRequestOpened'
      data: IssueRef & {
        id: number
        poster: AccountRef
        title: string
        body: string
        head: BranchPoint
        base: BranchPoint
        mergeBase: string
        diff: DiffStat
        mergeable: boolean
        labels: LabelRef[]
        milestone: MilestoneRef | null
        assignees: AccountRef[]
        deadline: string | null
      }
    }
  | {
      type: 'PullRequestHeadMoved'
      data: IssueRef & { from: string; to: string; mergeBase: string; diff: DiffStat }
    }
  | {
      type: 'MergeabilityChecked'
      data: IssueRef & { head: string; base: string; mergeable: boolean; conflicts: string[] }
    }
  /** The base has some of the head's commits since it moved, or has them no more. */
  | { type: 'MergeBaseMoved'; data: IssueRef & { from: string; to: string; diff: DiffStat } }
  | {
      type: 'TargetBranchChanged'
      data: IssueRef & { from: BranchPoint; base: BranchPoint; mergeBase: string; diff: DiffStat }
    }
  | { type: 'MaintainerEditChanged'; data: IssueRef & { allowed: boolean } }
  | { type: 'MergeStarted'; data: IssueRef & MergeIntent }
  | { type: 'MergeFailed'; data: IssueRef & { commit: string; reason: string } }
  | {
      type: 'PullRequestMerged'
      data: IssueRef & {
        style: MergeStyle
        /** Where the base branch came to; of a manual merge the commit that was named. */
        commit: string
        head: string
        mergeBase: string | null
        mergedBy: AccountRef
        milestone: MilestoneRef | null
        /** Whether the head branch goes, too: right after, and if need be later. */
        deleteBranch: boolean
      }
    }
  /** The comment on the deletion of the head branch after a merge. */
  | { type: 'HeadBranchDeleted'; data: IssueRef & { commentId: number; branch: BranchPoint } }
  | { type: 'MergeScheduled'; data: IssueRef & ScheduledMerge }
  | { type: 'MergeScheduleCanceled'; data: IssueRef & { by: AccountRef } }
  /** The scheduled merge was tried and refused: that was the end of the schedule. */
  | { type: 'ScheduledMergeRefused'; data: IssueRef & { head: string; reason: string; errors: string[] } }
  | DiscussionEvent

/** `ids-<kind>` and `numbers-<repoId>`: the revision that an event gets is the number that it takes. */
export type SequenceEvent = { type: 'NumberTaken'; data: { sequence: string } }

/** `claim-<kind>-<key>`: who has the name. */
export type ClaimEvent =
  | { type: 'ClaimTaken'; data: { key: string; holder: string } }
  | { type: 'ClaimReleased'; data: { key: string; holder: string } }

/** Stands first in the stream of something that was claimed and numbered but never made. */
export type AbandonedEvent = { type: 'CreationAbandoned'; data: { key: string } }

export type DomainEvent =
  | UserEvent
  | OrganizationEvent
  | RepositoryEvent
  | LabelEvent
  | MilestoneEvent
  | CheckEvent
  | ReadEvent
  | GitEvent
  | PullRequestEvent
  | IssueEvent
  | CommentEvent
  | UpgradeEvent
  | SequenceEvent
  | ClaimEvent
  | AbandonedEvent

/** What the log adds to an event. */
export type Envelope = Omit<RecordedEvent, 'type' | 'data'>
/** A domain event as the log has it. */
export type Recorded<E> = E & Envelope
