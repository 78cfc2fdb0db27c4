/** Access tokens, as their owner sees them. Their hashes are only in the secret store, never here. */
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface TokenDocument {
  id: number
  userId: number
  name: string
  lastEight: string
  scopes: string[]
  createdAt: string
}

export const tokenFold: Fold<TokenDocument> = foldOf({
  name: 'tokens',
  indexes: [{ userId: 1, id: 1 }],
  version: 1,
  ids: ({ data }) => [`${data.tokenId}`],
  becomes: {
    TokenCreated(_, { data, metadata }) {
      const { tokenId, user, name, lastEight, scopes } = data
      return { id: tokenId, userId: user.id, name, lastEight, scopes, createdAt: metadata.at }
    },
    TokenDeleted: () => undefined,
  },
  begins: ['TokenCreated'],
})
