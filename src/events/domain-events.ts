/**
 * What happened: every event type that Mergelog writes, by the kind of stream that it stands in.
 *
 * An event's data is complete: a reader needs no other table to understand it. A type never changes its
 * meaning; a new shape gets a new number in `schemaOf` and an upcaster in `codec.ts`.
 */
import type { RecordedEvent } from './event-store.ts'

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

/** The settings of a repository that can be edited. */
export interface RepositorySettings {
  name: string
  description: string
  website: string
  private: boolean
  defaultBranch: string
}

/** `repo-<id>` */
export type RepositoryEvent =
  | {
      type: 'RepositoryCreated'
      data: { repoId: number; owner: AccountRef & { kind: AccountKind } } & RepositorySettings
    }
  | { type: 'RepositoryEdited'; data: { repoId: number; changes: Partial<RepositorySettings> } }
  | { type: 'RepositoryDeleted'; data: { repoId: number; owner: AccountRef; name: string } }
  | { type: 'CollaboratorSet'; data: { repoId: number; user: AccountRef; permission: Permission } }
  | { type: 'CollaboratorRemoved'; data: { repoId: number; user: AccountRef } }

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
    cause: 'push' | 'merge' | 'auto-init' | 'branch-deletion' | 'recovered'
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

export type MergeStyle = 'merge'

/** `pull-<repoId>.<index>` */
export type PullRequestEvent =
  | {
      type: 'PullRequestOpened'
      data: {
        repoId: number
        index: number
        id: number
        poster: AccountRef
        title: string
        body: string
        head: BranchPoint
        base: BranchPoint
        mergeBase: string
        diff: DiffStat
        mergeable: boolean
      }
    }
  | {
      type: 'PullRequestHeadMoved'
      data: { repoId: number; index: number; from: string; to: string; mergeBase: string; diff: DiffStat }
    }
  | {
      type: 'MergeabilityChecked'
      data: {
        repoId: number
        index: number
        head: string
        base: string
        mergeable: boolean
        conflicts: string[]
      }
    }
  | {
      type: 'MergeStarted'
      data: {
        repoId: number
        index: number
        style: MergeStyle
        /** The base branch moves from `from` to `commit`, or the merge failed. */
        baseBranch: string
        from: string
        head: string
        commit: string
        message: string
        by: AccountRef
      }
    }
  | { type: 'MergeFailed'; data: { repoId: number; index: number; commit: string; reason: string } }
  | {
      type: 'PullRequestMerged'
      data: { repoId: number; index: number; commit: string; head: string; mergedBy: AccountRef }
    }

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
  | GitEvent
  | PullRequestEvent
  | SequenceEvent
  | ClaimEvent
  | AbandonedEvent

/** A domain event as the log has it. */
export type Recorded<E> = E & Omit<RecordedEvent, 'type' | 'data'>

/** The current schema number of each type's data. */
export const schemaOf = {
  UserCreated: 1,
  TokenCreated: 1,
  TokenDeleted: 1,
  OrganizationCreated: 1,
  MemberSet: 1,
  MemberRemoved: 1,
  RepositoryCreated: 1,
  RepositoryEdited: 1,
  RepositoryDeleted: 1,
  CollaboratorSet: 1,
  CollaboratorRemoved: 1,
  RefsUpdated: 1,
  PullRequestOpened: 1,
  PullRequestHeadMoved: 1,
  MergeabilityChecked: 1,
  MergeStarted: 1,
  MergeFailed: 1,
  PullRequestMerged: 1,
  NumberTaken: 1,
  ClaimTaken: 1,
  ClaimReleased: 1,
  CreationAbandoned: 1,
} as const satisfies Record<DomainEvent['type'], number>
