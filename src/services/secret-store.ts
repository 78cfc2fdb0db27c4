/** The store of the secrets, with a cache of tokens: every request looks up its own. */
import { LRUCache } from 'lru-cache'
import { nextRun } from '../concurrency/coalesce.ts'
import type { Collection, ReadStore } from '../projections/store/read-store.ts'

export interface TokenSecret {
  /** SHA-256 of the token, hexadecimal. It is also the document's id. */
  hash: string
  userId: number
  tokenId: number
  /** ISO 8601. */
  madeAt: string
}

/** By SHA-256 of the token. A token is random, so a slow hash would not be safer. */
export const tokenHashes: Collection<TokenSecret> = {
  name: 'token_hashes',
  indexes: [{ tokenId: 1 }],
  arrays: [],
}

export interface SecretStore extends ReadStore {
  /** Returns the secret of a token by its hash, as the last write of any process left it. */
  tokenSecret(hash: string): Promise<TokenSecret | undefined>
}

const newCache = () => new LRUCache<string, TokenSecret>({ max: 10_000 })

/**
 * Adds `tokenSecret` to a store. It is cached where no other process writes to the store; in a shared store, the lookups
 * during one read share the next read.
 */
export function createSecretStore(store: ReadStore): SecretStore {
  let cache = newCache()
  const wanted = new Set<string>()
  const readWanted = nextRun(async () => {
    const hashes = [...wanted]
    wanted.clear()
    const stored = await secrets.getMany(tokenHashes, hashes)
    return new Map(stored.map(({ id, body }) => [id, body]))
  })

  async function cached(hash: string): Promise<TokenSecret | undefined> {
    const current = cache
    const secret = current.get(hash) ?? (await secrets.get(tokenHashes, hash))
    if (secret !== undefined) current.set(hash, secret)
    return secret
  }

  const secrets: SecretStore = {
    ...store,
    async apply(changes, checkpoints) {
      await store.apply(changes, checkpoints)
      const isOfTokens = !('some' in changes) || changes.some(({ collection }) => collection === tokenHashes)
      // A new cache: a read that began before this write must not fill it.
      if (isOfTokens) cache = newCache()
    },
    async tokenSecret(hash) {
      if (store.shared === undefined) return cached(hash)
      wanted.add(hash)
      return (await readWanted()).get(hash)
    },
  }
  return secrets
}
