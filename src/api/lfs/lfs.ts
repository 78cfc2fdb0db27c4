/** Large files on the wire: batches of objects, and locks, in the formats of git-lfs (its `docs/api`). */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import type { LfsLockDocument } from '../../projections/models/lfs/lfs-locks.fold.ts'
import { GHOST } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'

/** The media type of git-lfs, for bodies and answers. */
export const LFS_JSON = 'application/vnd.git-lfs+json'

/** Maximum number of objects in a batch. git-lfs requests 100. */
const MAX_OBJECTS = 1000

export const LfsParams = Type.Object({ owner: Type.String(), repo: Type.String() })

export const LfsObjectBody = Type.Object(
  {
    oid: Type.String({ description: 'SHA-256 of the content, in hexadecimal digits' }),
    size: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  },
  { title: 'LfsObjectBody' },
)

/** The ref of a batch or lock. Git limits its name to the length of a path. */
const Ref = Type.Optional(Type.Object({ name: Type.String({ maxLength: 4096 }) }))

export const LfsBatchBody = Type.Object(
  {
    operation: Type.Union([Type.Literal('download'), Type.Literal('upload')]),
    transfers: Type.Optional(Type.Array(Type.String(), { maxItems: 100 })),
    ref: Ref,
    objects: Type.Array(LfsObjectBody, { maxItems: MAX_OBJECTS }),
    hash_algo: Type.Optional(Type.String()),
  },
  { title: 'LfsBatchBody' },
)

const Action = Type.Object(
  {
    href: Type.String(),
    header: Type.Optional(Type.Record(Type.String(), Type.String())),
  },
  { title: 'LfsAction' },
)
const ObjectWire = Type.Object(
  {
    oid: Type.String(),
    size: Type.Integer(),
    actions: Type.Optional(
      Type.Object({
        download: Type.Optional(Action),
        upload: Type.Optional(Action),
        verify: Type.Optional(Action),
      }),
    ),
    error: Type.Optional(Type.Object({ code: Type.Integer(), message: Type.String() })),
  },
  { title: 'LfsObject' },
)
export type LfsObjectWire = Static<typeof ObjectWire>

/**
 * Makes the actions of a batch: the requests that the client sends next. As in Gitea they contain the credentials of the
 * batch, because some clients send none of their own.
 */
export const lfsActions =
  (base: string, authorization: string | undefined) =>
  (path: string): Static<typeof Action> => ({
    href: `${base}${path}`,
    ...(authorization !== undefined && { header: { Authorization: authorization } }),
  })
export type LfsActions = ReturnType<typeof lfsActions>

export const LfsBatchWire = Type.Object(
  {
    transfer: Type.String(),
    objects: Type.Array(ObjectWire),
    hash_algo: Type.String(),
  },
  { title: 'LfsBatch' },
)

export const LfsLockBody = Type.Object(
  {
    path: Type.String({ minLength: 1, maxLength: 4096 }),
    ref: Ref,
  },
  { title: 'LfsLockBody' },
)
export const LfsVerifyLocksBody = Type.Object(
  {
    ref: Ref,
    cursor: Type.Optional(Type.String()),
    limit: Type.Optional(Type.Integer()),
  },
  { title: 'LfsVerifyLocksBody' },
)
export const LfsUnlockBody = Type.Object(
  { force: Type.Optional(Type.Boolean()), ref: Ref },
  { title: 'LfsUnlockBody' },
)

const LockWire = Type.Object(
  {
    id: Type.String(),
    path: Type.String(),
    locked_at: Type.String(),
    owner: Type.Object({ name: Type.String() }),
  },
  { title: 'LfsLock' },
)
export const LfsLockWire = Type.Object({ lock: LockWire }, { title: 'LfsLockResponse' })
export const LfsLockTakenWire = Type.Object(
  { lock: LockWire, message: Type.String() },
  { title: 'LfsLockTaken' },
)
export const LfsLocksWire = Type.Object(
  {
    locks: Type.Array(LockWire),
    next_cursor: Type.Optional(Type.String()),
  },
  { title: 'LfsLocks' },
)
export const LfsVerifiedLocksWire = Type.Object(
  {
    ours: Type.Array(LockWire),
    theirs: Type.Array(LockWire),
    next_cursor: Type.Optional(Type.String()),
  },
  { title: 'LfsVerifiedLocks' },
)

/** Returns locks in the format of git-lfs, with the present logins. */
export async function lfsLockWires(
  { views }: Pick<Services, 'views'>,
  locks: readonly LfsLockDocument[],
): Promise<Static<typeof LockWire>[]> {
  const owners = await views.accounts.getMany([...new Set(locks.map(({ owner }) => `${owner.id}`))])
  const logins = new Map(owners.map(({ id, login, deleted }) => [id, deleted ? GHOST : login]))
  return locks.map(({ id, path, lockedAt, owner }) => ({
    id: `${id}`,
    path,
    locked_at: wholeSeconds(lockedAt),
    owner: { name: logins.get(owner.id) ?? owner.login },
  }))
}
