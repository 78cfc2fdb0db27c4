/** Last use of access tokens, to the hour. It changes with each request, so it is not an event. */
import { LRUCache } from 'lru-cache'
import type { Collection, ReadStore } from '../projections/store/read-store.ts'

interface TokenUse {
  tokenId: number
  /** ISO 8601. */
  usedAt: string
}

/** By the id of the token. */
export const tokenUses: Collection<TokenUse> = { name: 'token_uses', indexes: [], arrays: [] }

/** It is not folded from the log, so it has no real position. */
const position = 0
const HOUR_MS = 3_600_000

/** Makes a function that records the use of a token, at most once an hour, in the background. Failures are ignored. */
export function recordsTokenUse(secrets: ReadStore): (tokenId: number) => void {
  const recorded = new LRUCache<number, true>({ max: 10_000, ttl: HOUR_MS })
  return (tokenId) => {
    if (recorded.has(tokenId)) return
    recorded.set(tokenId, true)
    write(secrets, { tokenId, usedAt: new Date().toISOString() }).catch(() => {})
  }
}

async function write(secrets: ReadStore, body: TokenUse): Promise<void> {
  const id = `${body.tokenId}`
  await secrets.apply([{ op: 'put', collection: tokenUses, id, position, body }], new Map())
}

/** Returns the times of the last uses of tokens, by token id. Unused tokens are left out. */
export async function tokenUsesOf(
  secrets: ReadStore,
  tokenIds: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const found = await secrets.getMany(tokenUses, tokenIds.map(String))
  return new Map(found.map(({ body }) => [body.tokenId, body.usedAt]))
}
