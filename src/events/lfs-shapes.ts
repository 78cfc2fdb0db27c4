/** What the data of the events about large files looks like: see `event-shapes.ts`. */
import type { LfsEvent, LfsLock, LfsObject } from './lfs-events.ts'
import { account } from './ref-shapes.ts'
import { type Checks, flag, list, object, orNull, text, whole, word } from './shapes.ts'

export const lfsFields: { readonly [E in LfsEvent as E['type']]: Checks<E['data']> } = {
  LfsObjectsAdded: {
    repoId: whole,
    cause: word('upload', 'fork', 'merge'),
    objects: list(object<LfsObject>({ oid: text, size: whole })),
  },
  LfsLocked: {
    repoId: whole,
    lock: object<LfsLock>({ id: whole, path: text, owner: account, ref: orNull(text) }),
  },
  LfsUnlocked: { repoId: whole, lockId: whole, path: text, by: account, forced: flag },
}
