/** Public keys of OpenPGP on the wire, and the look-up of the key in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds, ZERO_TIME } from '../../domain/times.ts'
import type { GpgPartData } from '../../events/catalog/keys.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { GpgKeyDocument } from '../../projections/models/keys/gpg-keys.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'

const fields = {
  id: Type.Integer(),
  primary_key_id: Type.String({ description: 'Id of the primary key of a subkey; empty for a primary key' }),
  key_id: Type.String(),
  public_key: Type.String({ description: 'Packet of the public key, in base64' }),
  emails: Type.Array(Type.Object({ email: Type.String(), verified: Type.Boolean() })),
  can_sign: Type.Boolean(),
  can_encrypt_comms: Type.Boolean(),
  can_encrypt_storage: Type.Boolean(),
  can_certify: Type.Boolean(),
  verified: Type.Boolean({ description: 'Whether the owner has signed a token with the key' }),
  created_at: Type.String(),
  expires_at: Type.String(),
}

export const GpgKeyWire = Type.Object(
  { ...fields, subkeys: Type.Array(Type.Object(fields)) },
  { title: 'GPGKey' },
)

/**
 * Returns a key as Gitea's `GPGKey`. `viewer`: the requester. An address of the key is included when it is the owner's,
 * and the viewer may see it.
 */
export function gpgKeyWire(
  { id, primary, subkeys, emails, expiresAt, verified }: GpgKeyDocument,
  owner: AccountDocument,
  viewer: AccountDocument | null,
): Static<typeof GpgKeyWire> {
  const isShown = owner.showEmail || viewer?.id === owner.id || viewer?.siteAdmin === true
  const email = owner.email.toLowerCase()
  const wire = ({ longId, publicKey, madeAt, canSign, canEncrypt }: GpgPartData) => ({
    id,
    primary_key_id: longId === primary.longId ? '' : primary.longId,
    key_id: longId,
    public_key: publicKey,
    emails: [],
    can_sign: canSign,
    can_encrypt_comms: canEncrypt,
    can_encrypt_storage: canEncrypt,
    can_certify: canSign,
    verified,
    created_at: wholeSeconds(madeAt),
    expires_at: expiresAt === null ? ZERO_TIME : wholeSeconds(expiresAt),
  })
  return {
    ...wire(primary),
    emails: isShown && emails.includes(email) ? [{ email: owner.email, verified: true }] : [],
    subkeys: subkeys.map(wire),
  }
}

/** Returns the user's key with that id. @throws Refused (not found), also for a key of another user */
export async function gpgKeyFor(
  { views: { gpgKeys } }: Pick<Services, 'views'>,
  owner: AccountDocument,
  id: string,
): Promise<GpgKeyDocument> {
  const number = pathNumber(id)
  const key = number === undefined ? undefined : await gpgKeys.get(`${number}`)
  if (key === undefined || key.userId !== owner.id) throw notFoundIn(gpgKeys, 'key not found')
  return key
}
