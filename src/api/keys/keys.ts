/** Public keys on the wire, and the look-up of the key in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type {
  DeployKeyDocument,
  KeyDocument,
  SshKeyDocument,
} from '../../projections/models/keys/keys.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn, type View } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { PlainRepositoryWire } from '../repositories/repositories.ts'
import { UserWire, userWire } from '../users/users.ts'

const KEY = {
  id: Type.Integer(),
  key: Type.String(),
  url: Type.String(),
  title: Type.String(),
  fingerprint: Type.String(),
  created_at: Type.String(),
  last_used_at: Type.String({ description: 'Same as created_at: this server has no SSH' }),
  read_only: Type.Boolean(),
}

export const PublicKeyWire = Type.Object(
  { ...KEY, key_type: Type.String(), user: UserWire },
  { title: 'PublicKey' },
)
export const DeployKeyWire = Type.Object(
  { ...KEY, key_id: Type.Integer(), repository: PlainRepositoryWire },
  { title: 'DeployKey' },
)

const keyWire = ({ id, key, title, fingerprint, createdAt, readOnly }: KeyDocument, url: string) => ({
  id,
  key,
  url,
  title,
  fingerprint,
  created_at: wholeSeconds(createdAt),
  last_used_at: wholeSeconds(createdAt),
  read_only: readOnly,
})

/** Returns a key as Gitea's `PublicKey`. */
export function publicKeyWire(
  key: SshKeyDocument,
  owner: AccountDocument,
  publicUrl: string,
): Static<typeof PublicKeyWire> {
  return {
    ...keyWire(key, `${publicUrl}/api/v1/user/keys/${key.id}`),
    key_type: 'user',
    user: userWire(owner, publicUrl),
  }
}

/** Returns a key as Gitea's `DeployKey`. */
export function deployKeyWire(
  key: DeployKeyDocument,
  repository: Static<typeof PlainRepositoryWire>,
): Static<typeof DeployKeyWire> {
  return { ...keyWire(key, `${repository.url}/keys/${key.id}`), key_id: key.id, repository }
}

async function keyFor<D extends KeyDocument>(
  view: View<D>,
  id: string,
  isOwn: (key: D) => boolean,
): Promise<D> {
  const number = pathNumber(id)
  const key = number === undefined ? undefined : await view.get(`${number}`)
  if (key === undefined || !isOwn(key)) throw notFoundIn(view, 'key not found')
  return key
}

/**
 * Returns the key with that id, and its owner.
 * @throws Refused (not found), also for another user's key, unless the requester is a site admin
 */
export async function sshKeyVisibleTo(
  { views }: Pick<Services, 'views'>,
  requester: AccountDocument,
  id: string,
): Promise<{ key: SshKeyDocument; owner: AccountDocument }> {
  const key = await keyFor(views.sshKeys, id, ({ userId }) => requester.siteAdmin || userId === requester.id)
  const owner = await views.accounts.get(`${key.userId}`)
  if (owner === undefined) throw notFoundIn(views.accounts, 'key not found')
  return { key, owner }
}

/** Returns the user's key with that id. @throws Refused (not found), also for another user's key */
export const sshKeyFor = ({ views }: Pick<Services, 'views'>, owner: AccountDocument, id: string) =>
  keyFor(views.sshKeys, id, ({ userId }) => userId === owner.id)

/** Returns the repository's key with that id. @throws Refused (not found) */
export const deployKeyFor = (
  { views }: Pick<Services, 'views'>,
  { id: repoId }: RepositoryDocument,
  id: string,
) => keyFor(views.deployKeys, id, (key) => key.repoId === repoId)
