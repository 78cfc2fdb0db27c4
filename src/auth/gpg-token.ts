/** The text that a user signs to show that a private key of OpenPGP is theirs. All nodes make the same one. */
import { hash } from 'node:crypto'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'

/** A token is good for one to two of these times: long enough to sign it by hand. */
const VALID_MS = 10 * 60_000

/** The token is not secret: it makes the signature recent and specific to the user. */
function tokenOf({ id, login, email, createdAt }: AccountDocument, period: number): string {
  return hash('sha256', [period, createdAt, login, email, id].join(':'), 'hex')
}

/** The tokens of a user that are good at a time, the newest first. */
export function gpgTokens(user: AccountDocument, now: number): [newest: string, before: string] {
  const period = Math.floor(now / VALID_MS)
  return [tokenOf(user, period), tokenOf(user, period - 1)]
}
