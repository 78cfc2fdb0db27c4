/** Access tokens as their owner sees them. Their hashes are in the secret store, never here. */
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface TokenDocument {
  id: number
  userId: number
  name: string
  lastEight: string
  scopes: string[]
  createdAt: string
}

export const tokens: Collection<TokenDocument> = {
  name: 'tokens',
  indexes: [
    [
      ['userId', 1],
      ['id', 1],
    ],
  ],
  arrays: [],
}

export const tokenFold: Fold<TokenDocument> = {
  collection: tokens,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'TokenCreated':
      case 'TokenDeleted':
        return [`${event.data.tokenId}`]
      default:
        return []
    }
  },
  evolve(token, event) {
    switch (event.type) {
      case 'TokenCreated': {
        const { tokenId, user, name, lastEight, scopes } = event.data
        return { id: tokenId, userId: user.id, name, lastEight, scopes, createdAt: event.metadata.at }
      }
      case 'TokenDeleted':
        return undefined
      default:
        return token
    }
  },
}

export const tokenModel = readModel(tokenFold)
