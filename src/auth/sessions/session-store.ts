/** Sessions in the secret store, shared by all nodes and kept over restarts. */
import { createHash, randomBytes } from 'node:crypto'
import type { Change, Collection, ReadStore } from '../../projections/store/read-store.ts'

export interface Session {
  /** SHA-256 of the key that the client has, hexadecimal. It is also the document's id. */
  hash: string
  userId: number
  /** ISO 8601. */
  madeAt: string
  endsAt: string
}

export const sessions: Collection<Session> = { name: 'sessions', indexes: [{ userId: 1 }], arrays: [] }

/** Secrets are not folded from the log, so they have no real position. */
const position = 0

const KEY = /^[0-9a-f]{64}$/

/** Lifetime of a session, in milliseconds: users deleted at the provider lose access to pages within a day. */
export const SESSION_MS = 24 * 3_600_000
/** Tolerated difference between the clocks of servers, in milliseconds. */
const MAX_CLOCK_SKEW_MS = 3_600_000
/** Maximum number of sessions per user. A further one ends the oldest. */
const MAX_SESSIONS = 20

/** Whether a session is valid at a time. One that ends too late is from a clock that was ahead, and is invalid. */
function isOpen({ endsAt }: Session, now: number): boolean {
  const left = Date.parse(endsAt) - now
  return left > 0 && left <= SESSION_MS + MAX_CLOCK_SKEW_MS
}

const deletion = ({ hash }: Session): Change => ({ op: 'delete', collection: sessions, id: hash })

const hashOf = (key: string) => createHash('sha256').update(key).digest('hex')

/**
 * Stores a new session, and deletes the user's expired and excess ones. Resolves to its key. `now`: milliseconds since
 * 1970.
 */
export async function keepSession(secrets: ReadStore, userId: number, now = Date.now()): Promise<string> {
  const key = randomBytes(32).toString('hex')
  const all = await secrets.find(sessions, { userId })
  const open = all
    .filter((session) => isOpen(session, now))
    .toSorted((one, other) => (one.madeAt < other.madeAt ? 1 : -1))
    .slice(0, MAX_SESSIONS - 1)
  const kept = new Set(open.map(({ hash }) => hash))
  const body: Session = {
    hash: hashOf(key),
    userId,
    madeAt: new Date(now).toISOString(),
    endsAt: new Date(now + SESSION_MS).toISOString(),
  }
  const begun: Change = { op: 'put', collection: sessions, id: body.hash, position, body }
  const ended = all.filter(({ hash }) => !kept.has(hash)).map(deletion)
  await secrets.apply([begun, ...ended], new Map())
  return key
}

/** Returns the session with this key; undefined when it has ended. */
export async function sessionOf(
  secrets: ReadStore,
  key: string,
  now = Date.now(),
): Promise<Session | undefined> {
  const session = KEY.test(key) ? await secrets.get(sessions, hashOf(key)) : undefined
  return session !== undefined && isOpen(session, now) ? session : undefined
}

/** Whether a session has not been ended. */
export async function hasSession(secrets: ReadStore, hash: string): Promise<boolean> {
  return (await secrets.get(sessions, hash)) !== undefined
}

/** Ends all sessions of a user, or only the one with this hash. */
export async function endSessions(secrets: ReadStore, userId: number, only?: string): Promise<void> {
  const all = await secrets.find(sessions, { userId })
  const ended = all.filter(({ hash }) => only === undefined || hash === only)
  if (ended.length > 0) await secrets.apply(ended.map(deletion), new Map())
}
