/** The text that a user signs to prove possession of an OpenPGP key. All nodes make the same one. */
import { hash } from 'node:crypto'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'

/** Length of a period, in milliseconds. A token is valid for one to two periods: long enough to sign it by hand. */
const PERIOD_MS = 10 * 60_000

/** The token is not secret: it makes the signature recent and specific to the user. */
function tokenOf({ id, login, email, createdAt }: AccountDocument, period: number): string {
  return hash('sha256', [period, createdAt, login, email, id].join(':'), 'hex')
}

/** Returns the valid tokens of a user, the newest first. */
export function gpgTokens(user: AccountDocument, now: number): [newest: string, before: string] {
  const period = Math.floor(now / PERIOD_MS)
  return [tokenOf(user, period), tokenOf(user, period - 1)]
}
