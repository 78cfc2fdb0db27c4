/** The events about large files (git LFS). Which objects a repository has, and who has locked what. */
import type { AccountRef } from './refs.ts'

/** A large file, as its pointer in git names it. */
export interface LfsObject {
  /** SHA-256 of its content: 64 hexadecimal digits in lower case. */
  oid: string
  /** In bytes. */
  size: number
}

/** A lock of a path, in the stream of that path: `lfs-<repoId>.<SHA-256 of the path>`. */
export interface LfsLock {
  /** Unique on the server. */
  id: number
  path: string
  owner: AccountRef
  /** The ref that the client named; null when it named none. It is kept, but a lock holds for all refs. */
  ref: string | null
}

export type LfsEvent =
  /** In `lfs-<repoId>`. The files are on disk. An object that comes twice is the same. */
  | {
      type: 'LfsObjectsAdded'
      data: { repoId: number; cause: 'upload' | 'fork' | 'merge'; objects: LfsObject[] }
    }
  | { type: 'LfsLocked'; data: { repoId: number; lock: LfsLock } }
  | {
      type: 'LfsUnlocked'
      data: {
        repoId: number
        lockId: number
        path: string
        by: AccountRef
        /** Whether somebody else than its owner has ended it. */
        forced: boolean
      }
    }
