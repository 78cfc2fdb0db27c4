/** The current locks of large files. */
import type { LfsLock } from '../../../events/catalog/lfs.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface LfsLockDocument extends LfsLock {
  repoId: number
  lockedAt: string
}

export const lfsLockFold: Fold<LfsLockDocument> = foldOf({
  name: 'lfs_locks',
  indexes: [
    { repoId: 1, id: 1 },
    { repoId: 1, path: 1 },
  ],
  version: 1,
  staysUntilRemoved: true,
  ids: ({ data }) => [`${'lock' in data ? data.lock.id : data.lockId}`],
  becomes: {
    LfsLocked: (_, { data, metadata }) => ({ ...data.lock, repoId: data.repoId, lockedAt: metadata.at }),
    LfsUnlocked: () => undefined,
  },
  begins: ['LfsLocked'],
})
