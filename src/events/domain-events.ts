/**
 * The catalogue of events: every event type that Mergelog writes, sorted by the kind of its stream.
 *
 * An event's data is complete: a reader needs no other table to understand it. A type never changes its
 * meaning. A new shape of the data gets a schema number and an upcaster in `codec.ts`.
 */
import type { RecordedEvent } from './event-store.ts'
import type { GpgKeyEvent } from './gpg-key-events.ts'
import type { IssueFileEvent, LockEvent } from './issue-file-events.ts'
import type { LfsEvent } from './lfs-events.ts'
import type { ListingEvent } from './listing-events.ts'
import type { PinEvent } from './pin-events.ts'
import type { RefCause, TagTime } from './ref-causes.ts'
import type { ReferenceEvent } from './reference-events.ts'
import type { AccountRef, IssueRef } from './refs.ts'
import type { ReleaseEvent } from './release-events.ts'
import type { ReviewEvent, ReviewRules } from './review-events.ts'
import type { SocialEvent } from './social-events.ts'
import type { TagProtectionEvent } from './tag-protection-events.ts'
import type { TeamEvent } from './team-events.ts'
import type { TransferEvent } from './transfer-events.ts'
import type { UpgradeEvent } from './upgrade-events.ts'
import type { WebhookEvent } from './webhook-events.ts'

export type { AccountRef, IssueRef } from './refs.ts'

/** The events of a kind of stream. `DataByType` has the data of each event type, and `Shared` what all of it has. */
type Events<DataByType, Shared = unknown> = {
  [Type in keyof DataByType]: { type: Type; data: Shared & DataByType[Type] }
}[keyof DataByType]

export type AccountKind = 'user' | 'organization'
export type Permission = 'read' | 'write' | 'admin'

/** The settings of a user that can be edited. */
export interface UserSettings {
  email: string
  fullName: string
  description: string
  location: string
  website: string
  /** Whether others see the e-mail address, also in the commits that the server makes. Otherwise they see another one. */
  showEmail: boolean
  siteAdmin: boolean
  /** False: the account is switched off. Nobody signs in with it, and it has no rights. */
  active: boolean
  /** True: like an account that is not active. Gitea knows both. */
  prohibitLogin: boolean
  /** Until its password is changed, the account can do nothing else. */
  mustChangePassword: boolean
}

/** `user-<id>` */
export type UserEvent = Events<{
  UserCreated: { id: number; login: string; email: string; fullName: string; siteAdmin: boolean }
  UserEdited: { user: AccountRef; changes: Partial<UserSettings> }
  /** From here on the hash with this id is the user's, in the store of the secrets. The id is no secret. */
  PasswordChanged: { user: AccountRef; passwordId: string; mustChangePassword: boolean }
  /** From here on this person at an OpenID Connect provider signs in to the account. */
  IdentityLinked: { user: AccountRef; issuer: string; subject: string }
  /** Another address of the user, which no other account has. Nobody has checked that it is the user's. */
  EmailAdded: { user: AccountRef; email: string }
  EmailRemoved: { user: AccountRef; email: string }
  /** The account is gone. What it did stays. */
  UserDeleted: { user: AccountRef }
  TokenCreated: { user: AccountRef; tokenId: number; name: string; lastEight: string; scopes: string[] }
  TokenDeleted: { user: AccountRef; tokenId: number; name: string }
}>

/** Who sees an account: everyone, all who are signed in, or only its members. */
export const VISIBILITIES = ['public', 'limited', 'private'] as const
export type Visibility = (typeof VISIBILITIES)[number]

export interface OrganizationSettings {
  fullName: string
  description: string
  /** May be empty. */
  email: string
  location: string
  website: string
  visibility: Visibility
}

/** `org-<id>` */
export type OrganizationEvent = Events<{
  OrganizationCreated: { id: number; login: string } & OrganizationSettings
  /**
   * It will be shown to fewer as soon as all its repositories are. That ends with an `OrganizationEdited` of the visibility.
   */
  HidingStarted: { organization: AccountRef; visibility: Visibility }
  OrganizationEdited: { organization: AccountRef; changes: Partial<OrganizationSettings> }
  MemberSet: { organization: AccountRef; user: AccountRef; permission: Permission }
  MemberRemoved: { organization: AccountRef; user: AccountRef }
  /** Whether people outside the organization see that the user is in it. They do not until this event says so. */
  MembershipShown: { organization: AccountRef; user: AccountRef; isPublic: boolean }
  /** They are in it no more, nor in its teams: it is being deleted, and an event names only some of very many. */
  MembersReleased: { organization: AccountRef; members: number[] }
  /** It is gone with its teams. `members`: the ids of those who still were in it or in one of its teams. */
  OrganizationDeleted: { organization: AccountRef; members: number[]; teams: number[] }
}>

/** The ways to merge a head branch into its base branch. The names are Gitea's. */
export const MERGE_STYLES = [
  'merge',
  'rebase',
  'rebase-merge',
  'squash',
  'fast-forward-only',
  'manually-merged',
] as const
export type MergeStyle = (typeof MERGE_STYLES)[number]
/** The ways to update a head branch from its base branch. */
export type UpdateStyle = 'merge' | 'rebase'

/** The settings of a repository for its pull requests. */
export interface MergeSettings {
  /** The allowed styles. */
  mergeStyles: MergeStyle[]
  defaultMergeStyle: MergeStyle
  allowRebaseUpdate: boolean
  /** Whether a merge deletes the head branch. A merge request may override it. */
  deleteBranchAfterMerge: boolean
  /** Whether new pull requests from forks let writers push to their branch. Absent: they do not. */
  defaultMaintainerEdit?: boolean
}

/** The settings of a repository that can be edited. */
export interface RepositorySettings {
  name: string
  description: string
  website: string
  private: boolean
  defaultBranch: string
}

/** What a deleted repository left in one read model: the ids of documents. */
export interface LeftDocuments {
  model: string
  ids: string[]
}

/** A branch protection, as in Gitea: a rule for the branches that match its name. */
export interface BranchProtection {
  id: number
  /** The name of a branch, or a pattern: `release/*`. */
  rule: string
  /** When several rules match a branch, the one with the lowest priority number applies. */
  priority: number
  /** Whether pushes are allowed: for all writers, or only for `pushers`. It does not concern merges. */
  push: boolean
  /** User ids; null: all writers. */
  pushers: number[] | null
  /** Where pushers are named: the ids of the teams whose members may push, too. Absent: none. The same for merges. */
  pusherTeams?: number[]
  /** User ids; null: all writers. */
  mergers: number[] | null
  mergerTeams?: number[]
  statusCheck: boolean
  /** The contexts (or patterns) that must have succeeded. An empty list means all contexts that were posted. */
  contexts: string[]
  requireSigned: boolean
  /** Whether a head must contain all commits of the base before it can be merged. */
  blockOutdated: boolean
  /** Whether the rule also holds for an admin who sends `force_merge`. */
  blockAdminOverride: boolean
  /** Present when it demands something of reviews. */
  reviews?: ReviewRules
  createdAt: string
  updatedAt: string
}

/** `repo-<id>` */
export type RepositoryEvent =
  | Events<
      {
        RepositoryCreated: RepositorySettings & {
          owner: AccountRef & { kind: AccountKind }
          /** Present for a fork: the repository that it was forked from. */
          parent?: { repoId: number; owner: AccountRef; name: string }
          /** Present when not everyone may see the owner. */
          ownerVisibility?: Exclude<Visibility, 'public'>
        }
        /** The server has found out who may see the owner. */
        OwnerVisibilityChanged: { visibility: Visibility }
        RepositoryEdited: { changes: Partial<RepositorySettings & MergeSettings> }
        RepositoryDeleted: {
          owner: AccountRef
          name: string
          /** Present when the repository was a fork: the repository that it was forked from. */
          parentId?: number
        }
        /**
         * The repository, or an issue of it, is deleted; the read models do not keep these documents any more. An event names
         * only some of them: a read model must not be changed in thousands of places by one event.
         */
        LeftDocumentsRemoved: { left: LeftDocuments[] }
        CollaboratorSet: { user: AccountRef; permission: Permission }
        CollaboratorRemoved: { user: AccountRef }
        BranchProtectionSet: { protection: BranchProtection }
        BranchProtectionRemoved: { rule: string }
      },
      { repoId: number }
    >
  | TagProtectionEvent

/** The owner of a label. All repositories of an organization share the organization's labels. */
export type LabelScope =
  | { kind: 'repository'; repoId: number }
  | { kind: 'organization'; organizationId: number }

export interface LabelSettings {
  name: string
  /** Six hexadecimal digits in lower case. */
  color: string
  description: string
  /** Whether an issue can have only one label with the same `scope/` before its name. */
  exclusive: boolean
  archived: boolean
}

/** A label as events of issues name it. The id identifies it. */
export interface LabelRef {
  id: number
  name: string
}

/** `label-<id>` */
export type LabelEvent = Events<
  {
    LabelCreated: LabelSettings
    LabelEdited: { changes: Partial<LabelSettings> }
    LabelDeleted: { name: string }
  },
  { id: number; scope: LabelScope }
>

export interface MilestoneSettings {
  title: string
  description: string
  state: 'open' | 'closed'
  /** ISO 8601; null when there is none. */
  dueOn: string | null
}

/** A milestone as events of issues name it. The id identifies it. */
export interface MilestoneRef {
  id: number
  title: string
}

/** `milestone-<id>` */
export type MilestoneEvent = Events<
  {
    MilestoneCreated: MilestoneSettings
    MilestoneEdited: { changes: Partial<MilestoneSettings> }
    MilestoneDeleted: { title: string }
  },
  { id: number; repoId: number }
>

export const COMMIT_STATES = ['pending', 'success', 'error', 'failure', 'warning', 'skipped'] as const
export type CommitState = (typeof COMMIT_STATES)[number]

/** A status of a commit, posted by CI or another program. */
export interface CommitStatus {
  id: number
  repoId: number
  sha: string
  /** The newest status of a context replaces the older ones. */
  context: string
  state: CommitState
  description: string
  targetUrl: string
  creator: AccountRef
}

/** `checks-<repoId>.<sha>` */
export type CheckEvent = Events<{ CommitStatusPosted: CommitStatus }>

/** `reads-<userId>`: the user has seen the issue or pull request as it was at the event's time. */
type ReadEvent = Events<{ IssueRead: IssueRef & { user: AccountRef } }>

export interface Signature {
  name: string
  email: string
  /** ISO 8601, with the time zone that git recorded. */
  date: string
}

/**
 * The parts of a commit that lists show. They are recorded with the update of a ref, so that no list needs git. Of a
 * long message, and of a long name, only the beginning is here.
 */
export interface CommitSummary {
  sha: string
  message: string
  author: Signature
  committer: Signature
  /** Whether it carries a signature, good or not. Absent: it has none. */
  isSigned?: boolean
}

export interface RefUpdate {
  /** Full name: `refs/heads/…`, `refs/tags/…`, `refs/notes/…` or another kind. Not those of pull requests. */
  ref: string
  /** The object before the update; null when the ref was created. */
  from: string | null
  /** The object after the update; null when the ref was deleted. */
  to: string | null
}

/** `git-<repoId>`. Separate from `repo-<id>`, so that pushes never conflict with changes of settings. */
export type GitEvent = Events<{
  RefsUpdated: {
    repoId: number
    cause: RefCause
    refs: RefUpdate[]
    /** What the pusher passed with `--push-option`. Of a push of several events, the first has them. */
    options?: string[]
    /** The new commits of the branches, each once. What is not a commit is missing. */
    commits: CommitSummary[]
    /** The times of the new tags, each object once. */
    tags?: TagTime[]
  }
}>

/** The head or base of a pull request: a branch of a repository, and its commit at that time. */
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

/** What closed or reopened an issue by naming it. */
export interface StatusCause {
  repoId: number
  /** Null: the commit was pushed. */
  pull: number | null
  commit: string
}

/**
 * The events that issues and pull requests share: in `issue-<repoId>.<index>` and in `pull-<repoId>.<index>`. Each
 * event holds the complete new value, and the difference to the old one.
 */
export type DiscussionEvent = FieldEvent | IssueFileEvent | LockEvent
type FieldEvent = Events<
  {
    TitleChanged: { oldTitle: string; title: string }
    BodyChanged: { body: string }
    StatusChanged: {
      closed: boolean
      /** The comment that shows the change in the timeline. */
      comment: { id: number; kind: 'close' | 'reopen' }
      /** The milestone that counts the issue. */
      milestone: MilestoneRef | null
      /** The branch of the pull request whose deletion has closed it. */
      branchGone?: 'head' | 'base'
      /** Present when a keyword did it (`fixes #3`): the commit, and the pull request whose merge brought the text. */
      cause?: StatusCause
    }
    LabelsChanged: { labels: LabelRef[]; added: LabelRef[]; removed: LabelRef[] }
    MilestoneChanged: { from: MilestoneRef | null; to: MilestoneRef | null; closed: boolean }
    AssigneesChanged: { assignees: AccountRef[]; added: AccountRef[]; removed: AccountRef[] }
    DeadlineChanged: { from: string | null; to: string | null }
    /** The branch or tag that it is about; empty: none. */
    IssueRefChanged: { from: string; to: string }
    DependencyAdded: { dependency: IssueRef }
    DependencyRemoved: { dependency: IssueRef }
    /**
     * From here on all texts before this event read "erased by … on …": those of one comment, or all (null). Their keys
     * are destroyed afterwards. A long list of comments is several events.
     */
    TextsErased: {
      commentId: number | null
      /** The comments that are there, and the uuids of their files. */
      comments: number[]
      files: string[]
      /** Null: an operator, on the command line. */
      by: AccountRef | null
      at: string
    }
    /** The keys of all erasures up to this revision are destroyed, and their files are removed. */
    ErasureFinished: {
      upTo: number
      /** How many events had texts whose keys were destroyed. */
      texts: number
      files: number
    }
  },
  IssueRef
>

/** What both issues and pull requests are opened with. */
export interface Opened extends IssueRef {
  /** Unique on the server. */
  id: number
  poster: AccountRef
  title: string
  body: string
  labels: readonly LabelRef[]
  milestone: MilestoneRef | null
  assignees: readonly AccountRef[]
  /** ISO 8601 at 23:59:59, in the time zone in which the client sent it. */
  deadline: string | null
}

/** `issue-<repoId>.<index>` */
export type IssueEvent =
  | Events<{
      /** `ref`: the branch or tag that it is about; absent: none. */
      IssueOpened: Opened & { ref?: string }
      /** Its number is not used again. `closed` and `milestone`: what counts it; `files`: the uuids of its own files. */
      IssueDeleted: IssueRef & { closed: boolean; milestone: MilestoneRef | null; files: string[] }
    }>
  | DiscussionEvent

/** Before `IssueDeleted`, in the same append: comments that end with their issue, and the uuids of their files. */
export type CommentsEvent = Events<{ CommentsDeleted: { comments: number[]; files: string[] } }, IssueRef>

/** A file of a comment. */
export interface Attachment {
  /** Unique on the server. */
  id: number
  /** The name under which the file is stored and downloaded. */
  uuid: string
  name: string
  /** In bytes. */
  size: number
  uploader: AccountRef
}

/** Comments, in the streams of issues and pull requests. */
export type CommentEvent = Events<
  {
    CommentAdded: { author: AccountRef; body: string }
    /** Also recorded when a file is added to the comment: then the body is unchanged. */
    CommentEdited: { body: string }
    CommentDeleted: unknown
    AttachmentAdded: { attachment: Attachment }
    AttachmentRenamed: { attachmentId: number; name: string }
    AttachmentDeleted: { attachmentId: number; uuid: string }
  },
  IssueRef & { commentId: number }
>

/** A merge whose intent is recorded: the base branch moves from `from` to `commit`, or the merge failed. */
export interface MergeIntent {
  style: MergeStyle
  baseBranch: string
  from: string
  head: string
  /** The merge base of `from` and `head`; null when the one that is already known did not change. */
  mergeBase: string | null
  commit: string
  message: string
  by: AccountRef
  /** Whether the head branch is deleted after the merge. */
  deleteBranch: boolean
}

/** What a scheduled merge waits for. `first-check`: no rule asks for checks, but the repository has them, so one will come. */
export type MergeWait = 'reviews' | 'required-checks' | 'checks' | 'first-check'

/** A merge that waits for its conditions, as the user scheduled it. */
export interface ScheduledMerge {
  style: MergeStyle
  title: string
  message: string
  deleteBranch: boolean
  by: AccountRef
  /** `head_commit_id`: the only head that may be merged; null when any head that a writer moves may be. */
  expectedHead: string | null
  /** What it waited for when it was scheduled. Empty: it is made at once. Absent in older events. */
  waitsFor?: readonly MergeWait[]
}

/** `pull-<repoId>.<index>` */
export type PullRequestEvent =
  | Events<
      {
        PullRequestOpened: Opened & {
          head: BranchPoint
          base: BranchPoint
          mergeBase: string
          diff: DiffStat
          mergeable: boolean
        }
        PullRequestHeadMoved: {
          from: string
          to: string
          mergeBase: string
          diff: DiffStat
          /** Present when the new head does not contain the old one. */
          forced?: boolean
        }
        MergeabilityChecked: {
          head: string
          base: string
          mergeable: boolean
          /** The paths of the files in conflict. */
          conflicts: string[]
          /** How many files are in conflict. Present when they are too many to be listed. */
          conflictCount?: number
        }
        /** The base branch moved, and now contains more or fewer of the head's commits than before. */
        MergeBaseMoved: { from: string; to: string; diff: DiffStat }
        TargetBranchChanged: { from: BranchPoint; base: BranchPoint; mergeBase: string; diff: DiffStat }
        /** The branch that is its head or its base got another name. No commit has changed. */
        PullRequestBranchRenamed: { side: 'head' | 'base'; from: string; to: string }
        MaintainerEditChanged: { allowed: boolean }
        MergeStarted: MergeIntent
        MergeFailed: { commit: string; reason: string }
        PullRequestMerged: {
          style: MergeStyle
          /** The new commit of the base branch; for a manual merge, the commit that the request named. */
          commit: string
          head: string
          mergeBase: string | null
          mergedBy: AccountRef
          milestone: MilestoneRef | null
          /** Whether the head branch is deleted, too: directly after the merge, or later if that fails. */
          deleteBranch: boolean
        }
        /** The comment on the deletion of the head branch after a merge. */
        HeadBranchDeleted: { commentId: number; branch: BranchPoint }
        /** The merge asked for the deletion of its head branch, which stays for a reason in words. */
        HeadBranchKept: { branch: BranchPoint; reason: string }
        MergeScheduled: ScheduledMerge
        MergeScheduleCanceled: { by: AccountRef }
        /** The scheduled merge was tried and refused, or the pull request has changed. The schedule ends with it. */
        ScheduledMergeRefused: {
          head: string
          reason: string
          errors: string[]
          /** The number of the errors. Present when they are too many to be listed. */
          errorCount?: number
        }
      },
      IssueRef
    >
  | DiscussionEvent
  | ReviewEvent

/** `ids-<kind>` and `numbers-<repoId>`: the event's revision in its stream is the number that it takes. */
export type SequenceEvent = Events<{ NumberTaken: { sequence: string } }>

/** `claim-<kind>-<key>`: the holder of a name that must be unique. */
type ClaimEvent = Events<{ ClaimTaken: unknown; ClaimReleased: unknown }, { key: string; holder: string }>

/** The first event in the stream of something that got its name and number but was never created. */
type AbandonedEvent = Events<{ CreationAbandoned: { key: string } }>

export type DomainEvent =
  | UserEvent
  | OrganizationEvent
  | TeamEvent
  | RepositoryEvent
  | ListingEvent
  | TransferEvent
  | LabelEvent
  | MilestoneEvent
  | CheckEvent
  | ReadEvent
  | GitEvent
  | PullRequestEvent
  | IssueEvent
  | CommentEvent
  | CommentsEvent
  | PinEvent
  | ReferenceEvent
  | ReleaseEvent
  | SocialEvent
  | GpgKeyEvent
  | UpgradeEvent
  | LfsEvent
  | WebhookEvent
  | SequenceEvent
  | ClaimEvent
  | AbandonedEvent

/** The fields that the log adds to an event. */
export type Envelope = Omit<RecordedEvent, 'type' | 'data'>
/** A domain event that was read from the log. */
export type Recorded<E> = E & Envelope
