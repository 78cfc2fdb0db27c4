/** `repo-<id>`: a repository, its listing, and its owner. */
import { type Static, Type } from 'typebox'
import { type BranchProtectionEvent, branchProtectionEvents } from './branches.ts'
import { AccountKind, Permission, Visibility } from './organizations.ts'
import { AccountRef, Changes, type EventsOf, Flag, Text, Whole } from './parts.ts'
import { type TagProtectionEvent, tagProtectionEvents } from './tags.ts'

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
export const MergeStyle = Type.Enum([...MERGE_STYLES])
/** The ways to update a head branch from its base branch. */
export type UpdateStyle = 'merge' | 'rebase'

/** The settings of a repository for its pull requests. */
const MergeSettings = Type.Object({
  /** The allowed styles. */
  mergeStyles: Type.Array(MergeStyle),
  defaultMergeStyle: MergeStyle,
  allowRebaseUpdate: Flag,
  /** Whether a merge deletes the head branch. A merge request may override it. */
  deleteBranchAfterMerge: Flag,
  /** Whether new pull requests from forks let writers push to their branch. Absent: they do not. */
  defaultMaintainerEdit: Type.Optional(Flag),
})
export type MergeSettings = Static<typeof MergeSettings>

/** The settings of a repository that can be edited. */
const RepositorySettings = Type.Object({
  name: Text,
  description: Text,
  website: Text,
  private: Flag,
  defaultBranch: Text,
})
export type RepositorySettings = Static<typeof RepositorySettings>

/** Ids of documents that a deleted repository left in one read model. */
const LeftDocuments = Type.Object({ model: Text, ids: Type.Array(Text) })
export type LeftDocuments = Static<typeof LeftDocuments>

const Owner = Type.Object({ ...AccountRef.properties, kind: AccountKind })
export type Owner = Static<typeof Owner>

const ownEvents = {
  RepositoryCreated: Type.Object({
    repoId: Whole,
    ...RepositorySettings.properties,
    owner: Owner,
    /** Present for a fork: the repository that it was forked from. */
    parent: Type.Optional(Type.Object({ repoId: Whole, owner: AccountRef, name: Text })),
    /** Present when not everyone may see the owner. */
    ownerVisibility: Type.Optional(Type.Enum(['limited', 'private'])),
  }),
  /** The server has noticed a new visibility of the owner. */
  OwnerVisibilityChanged: Type.Object({ repoId: Whole, visibility: Visibility }),
  RepositoryEdited: Type.Object({
    repoId: Whole,
    changes: Changes({ ...RepositorySettings.properties, ...MergeSettings.properties }),
  }),
  RepositoryDeleted: Type.Object({
    repoId: Whole,
    owner: AccountRef,
    name: Text,
    /** Present when the repository was a fork: the repository that it was forked from. */
    parentId: Type.Optional(Whole),
  }),
  /**
   * The repository is deleted; the read models do not keep these documents any more. An event names only some of them: a
   * read model must not be changed in thousands of places by one event.
   */
  LeftDocumentsRemoved: Type.Object({ repoId: Whole, left: Type.Array(LeftDocuments) }),
  CollaboratorSet: Type.Object({ repoId: Whole, user: AccountRef, permission: Permission }),
  CollaboratorRemoved: Type.Object({ repoId: Whole, user: AccountRef }),
}
export const repositoryEvents = { ...ownEvents, ...branchProtectionEvents, ...tagProtectionEvents }
export type RepositoryEvent = EventsOf<typeof ownEvents> | BranchProtectionEvent | TagProtectionEvent

export const listingEvents = {
  /** An archived repository can be read, and nothing in it changes. */
  ArchivedChanged: Type.Object({ repoId: Whole, archived: Flag }),
  /** Whether other users may generate repositories from it. */
  TemplateChanged: Type.Object({ repoId: Whole, template: Flag }),
  /**
   * Also recorded when the repository is shown or hidden: then `topics` stay. `listed` has the change of the list of all
   * topics, which only has topics of public repositories.
   */
  TopicsChanged: Type.Object({
    repoId: Whole,
    topics: Type.Array(Text),
    listed: Type.Object({ added: Type.Array(Text), removed: Type.Array(Text) }),
  }),
}
export type ListingEvent = EventsOf<typeof listingEvents>

/** A transfer that waits for its recipient. */
const PendingTransfer = Type.Object({
  sender: AccountRef,
  recipient: Owner,
  /** The teams of the recipient that get the repository. */
  teamIds: Type.Array(Whole),
})
export type PendingTransfer = Static<typeof PendingTransfer>

export const transferEvents = {
  /** Until the recipient has answered, the repository stays where it is. */
  TransferStarted: Type.Object({ repoId: Whole, ...PendingTransfer.properties }),
  /** Its recipient has refused it, or its sender has taken it back: the actor tells. */
  TransferCanceled: Type.Object({ repoId: Whole, recipient: Owner }),
  /** The repository belongs to the new owner from here on. Its old name redirects until it is taken. */
  RepositoryTransferred: Type.Object({
    repoId: Whole,
    name: Text,
    from: Owner,
    owner: Owner,
    /** Visibility of the new owner. */
    ownerVisibility: Visibility,
    /** The teams of the new owner that get the repository. */
    teamIds: Type.Array(Whole),
  }),
  /** Recorded with the edit that renames it. Its old name redirects until it is taken. */
  RepositoryRenamed: Type.Object({ repoId: Whole, owner: AccountRef, from: Text, name: Text }),
}
export type TransferEvent = EventsOf<typeof transferEvents>
