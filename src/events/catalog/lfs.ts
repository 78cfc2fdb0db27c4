/** Large files (git LFS): objects and locks of a repository. */
import { type Static, Type } from 'typebox'
import { AccountRef, type EventsOf, Flag, OrNull, Text, Whole } from './parts.ts'

/** A large file, as its pointer in git names it. */
const LfsObject = Type.Object({
  /** SHA-256 of its content: 64 hexadecimal digits in lower case. */
  oid: Text,
  /** In bytes. */
  size: Whole,
})
export type LfsObject = Static<typeof LfsObject>

/** A lock of a path, in the stream of that path: `lfs-<repoId>.<SHA-256 of the path>`. */
const LfsLock = Type.Object({
  /** Unique on the server. */
  id: Whole,
  path: Text,
  owner: AccountRef,
  /** The ref in the request, if any. It has no effect: a lock holds for all refs. */
  ref: OrNull(Text),
})
export type LfsLock = Static<typeof LfsLock>

export const lfsEvents = {
  /** In `lfs-<repoId>`. The files are on disk. A repeated object changes nothing. */
  LfsObjectsAdded: Type.Object({
    repoId: Whole,
    cause: Type.Enum(['upload', 'fork', 'merge']),
    objects: Type.Array(LfsObject),
  }),
  LfsLocked: Type.Object({ repoId: Whole, lock: LfsLock }),
  LfsUnlocked: Type.Object({
    repoId: Whole,
    lockId: Whole,
    path: Text,
    by: AccountRef,
    /** Whether a user other than its owner ended it. */
    forced: Flag,
  }),
}
export type LfsEvent = EventsOf<typeof lfsEvents>
