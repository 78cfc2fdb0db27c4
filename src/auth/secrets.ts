/**
 * The secret store: hashes of passwords and of access tokens. They never enter an event or a read model. The keys of
 * sealed texts are there, too: `text-keys.ts`.
 */
import { hash as digest } from 'node:crypto'
import type { AnyCollection, Change, Collection, ReadStore } from '../projections/store/read-store.ts'
import { type SecretStore, type TokenSecret, tokenHashes } from '../services/secret-store.ts'
import { sessions } from './sessions/session-store.ts'
import { textKeyCollection } from './text-keys.ts'
import { tokenUses } from './token-uses.ts'
import { webhookConfigs } from './webhook-configs.ts'

interface PasswordHash {
  hash: string
  /** Set until the first sign-in: a start has printed this password, and it may be lost. */
  unused?: true
}

/** By user id and, from the second password on, the id that the log gives the password. */
const passwordHashes: Collection<PasswordHash> = { name: 'password_hashes', indexes: [], arrays: [] }

/** The collections that the secret store must prepare. */
export const secretCollections: readonly AnyCollection[] = [
  passwordHashes,
  tokenHashes,
  tokenUses,
  textKeyCollection,
  sessions,
  webhookConfigs,
]

/** Secrets are not folded from the log. */
const position = 0

const write = (secrets: ReadStore, changes: readonly Change[]): Promise<void> =>
  secrets.apply(changes, new Map())

const passwordKey = (userId: number, passwordId: string | null) =>
  passwordId === null ? `${userId}` : `${userId} ${passwordId}`

/**
 * Resolves when the hash is on disk. `passwordId`: null for the first password. A later one counts only once the log
 * has its `PasswordChanged`, so a crash between the two leaves the old password. `unused`: as in the document.
 */
export async function keepPassword(
  secrets: ReadStore,
  userId: number,
  hash: string,
  passwordId: string | null = null,
  unused = false,
): Promise<void> {
  const body: PasswordHash = { hash, ...(unused && { unused }) }
  const id = passwordKey(userId, passwordId)
  await write(secrets, [{ op: 'put', collection: passwordHashes, id, position, body }])
}

export const storedPassword = (
  secrets: ReadStore,
  userId: number,
  passwordId: string | null = null,
): Promise<PasswordHash | undefined> => secrets.get(passwordHashes, passwordKey(userId, passwordId))

export async function passwordHashOf(
  secrets: ReadStore,
  userId: number,
  passwordId: string | null = null,
): Promise<string | undefined> {
  return (await storedPassword(secrets, userId, passwordId))?.hash
}

/**
 * Replaces a weaker hash of the same password, unless it has been deleted or replaced. From then on the password counts
 * as used.
 */
export async function strengthenPassword(
  secrets: ReadStore,
  userId: number,
  passwordId: string | null,
  { weaker, stronger }: { weaker: string; stronger: string },
): Promise<boolean> {
  if ((await passwordHashOf(secrets, userId, passwordId)) !== weaker) return false
  await keepPassword(secrets, userId, stronger, passwordId)
  return true
}

export async function forgetPassword(
  secrets: ReadStore,
  userId: number,
  passwordId: string | null,
): Promise<void> {
  await write(secrets, [{ op: 'delete', collection: passwordHashes, id: passwordKey(userId, passwordId) }])
}

/** Resolves when the token's hash is on disk. The token does not work before its event is recorded. */
export async function keepToken(
  secrets: ReadStore,
  token: string,
  of: { userId: number; tokenId: number; madeAt: string },
): Promise<TokenSecret> {
  const body: TokenSecret = { ...of, hash: sha256(token) }
  await write(secrets, [{ op: 'put', collection: tokenHashes, id: body.hash, position, body }])
  return body
}

export const findToken = (secrets: SecretStore, token: string): Promise<TokenSecret | undefined> =>
  secrets.tokenSecret(sha256(token))

export async function forgetSecret(secrets: ReadStore, { hash }: TokenSecret): Promise<void> {
  await write(secrets, [{ op: 'delete', collection: tokenHashes, id: hash }])
}

/**
 * Deletes all secrets of a token but the newest by `orderOf`. Concurrent calls keep the same one: each call sees its
 * own, and the last one sees all.
 */
export async function forgetOlderSecrets(secrets: ReadStore, tokenId: number): Promise<void> {
  const all = await secrets.find(tokenHashes, { tokenId })
  const [, ...older] = all.toSorted((one, other) => (orderOf(one) < orderOf(other) ? 1 : -1))
  if (older.length > 0) await write(secrets, older.map(deletion))
}

/** Returns the time of a further secret of a token: after all existing ones, even if their clock is ahead of `now`. */
export async function timeOfNewest(secrets: ReadStore, tokenId: number, now: string): Promise<string> {
  const all = await secrets.find(tokenHashes, { tokenId })
  const after = Math.max(...all.map(({ madeAt }) => Date.parse(madeAt) + 1), Date.parse(now))
  return new Date(after).toISOString()
}

/** Whether a token has a secret, without which it cannot sign in. */
export async function hasSecret(secrets: ReadStore, tokenId: number): Promise<boolean> {
  return (await secrets.find(tokenHashes, { tokenId }, { limit: 1 })).length > 0
}

/** Deletes all secrets of a token and its last use. */
export async function forgetToken(secrets: ReadStore, tokenId: number): Promise<void> {
  const all = await secrets.find(tokenHashes, { tokenId })
  const use: Change = { op: 'delete', collection: tokenUses, id: `${tokenId}` }
  if (all.length > 0) await write(secrets, [...all.map(deletion), use])
}

function deletion({ hash }: TokenSecret): Change {
  return { op: 'delete', collection: tokenHashes, id: hash }
}

function orderOf({ madeAt, hash }: TokenSecret): string {
  return `${madeAt} ${hash}`
}

function sha256(text: string): string {
  return digest('sha256', text, 'hex')
}
