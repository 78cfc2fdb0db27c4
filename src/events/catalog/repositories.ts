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
  /** Whether new pull requests from forks let writers push to their branch; absent for false. */
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
    /** Present for a fork: the original. */
    parent: Type.Optional(Type.Object({ repoId: Whole, owner: AccountRef, name: Text })),
    /** Present unless the owner is public. */
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
    /** Present for a fork: the original. */
    parentId: Type.Optional(Whole),
  }),
  /**
   * Removes documents of a deleted repository from the read models. Several events share the work: one event must not
   * change thousands of documents.
   */
  LeftDocumentsRemoved: Type.Object({ repoId: Whole, left: Type.Array(LeftDocuments) }),
  CollaboratorSet: Type.Object({ repoId: Whole, user: AccountRef, permission: Permission }),
  CollaboratorRemoved: Type.Object({ repoId: Whole, user: AccountRef }),
}
export const repositoryEvents = { ...ownEvents, ...branchProtectionEvents, ...tagProtectionEvents }
export type RepositoryEvent = EventsOf<typeof ownEvents> | BranchProtectionEvent | TagProtectionEvent

export const listingEvents = {
  /** An archived repository is read-only. */
  ArchivedChanged: Type.Object({ repoId: Whole, archived: Flag }),
  /** Whether other users may generate repositories from it. */
  TemplateChanged: Type.Object({ repoId: Whole, template: Flag }),
  /**
   * Also recorded when the repository's visibility changes: then `topics` stay. `listed` has the change of the list of
   * all topics, which only has topics of public repositories.
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
  /** The repository keeps its owner until the recipient accepts. */
  TransferStarted: Type.Object({ repoId: Whole, ...PendingTransfer.properties }),
  /** The recipient has refused it, or the sender has withdrawn it; see the actor. */
  TransferCanceled: Type.Object({ repoId: Whole, recipient: Owner }),
  /** The repository has a new owner. Its old name redirects until it is taken. */
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
