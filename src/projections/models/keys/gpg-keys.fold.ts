/** Public keys of OpenPGP of users. */
import type { GpgKeyData } from '../../../events/catalog/keys.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface GpgKeyDocument extends GpgKeyData {
  id: number
  userId: number
  /** Ids of the primary key and its subkeys. */
  longIds: string[]
  verified: boolean
  addedAt: string
}

export const gpgKeyFold: Fold<GpgKeyDocument> = foldOf({
  name: 'gpg_keys',
  indexes: [{ userId: 1, id: 1 }],
  arrays: ['longIds'],
  version: 1,
  ids: ({ data }) => [`${data.keyId}`],
  becomes: {
    GpgKeyAdded: (_, { data, metadata: { at } }) => {
      const { keyId: id, user, primary, subkeys, ...rest } = data
      const longIds = [primary, ...subkeys].map(({ longId }) => longId)
      return { id, userId: user.id, primary, subkeys, ...rest, longIds, addedAt: at }
    },
    GpgKeyRemoved: () => undefined,
  },
  begins: ['GpgKeyAdded'],
  changes: { GpgKeyVerified: () => ({ verified: true }) },
})
