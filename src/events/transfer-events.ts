/** The events by which a repository gets another owner or another name, in the stream `repo-<id>`. */
import type { AccountRef } from './refs.ts'

export interface Owner extends AccountRef {
  kind: 'user' | 'organization'
}

/** A transfer that waits for its recipient. */
export interface PendingTransfer {
  sender: AccountRef
  recipient: Owner
  /** The teams of the recipient that get the repository. */
  teamIds: number[]
}

export type TransferEvent =
  /** Until the recipient has answered, the repository stays where it is. */
  | { type: 'TransferStarted'; data: { repoId: number } & PendingTransfer }
  /** Its recipient has refused it, or its sender has taken it back: the actor tells. */
  | { type: 'TransferCanceled'; data: { repoId: number; recipient: Owner } }
  /** From here on the repository is the new owner's. Its old name leads to it until somebody takes that. */
  | {
      type: 'RepositoryTransferred'
      data: {
        repoId: number
        name: string
        from: Owner
        owner: Owner
        /** Who may see the new owner. */
        ownerVisibility: 'public' | 'limited' | 'private'
        /** The teams of the new owner that get the repository. */
        teamIds: number[]
      }
    }
  /** Recorded with the edit that renames it. Its old name leads to it until somebody takes that. */
  | { type: 'RepositoryRenamed'; data: { repoId: number; owner: AccountRef; from: string; name: string } }
