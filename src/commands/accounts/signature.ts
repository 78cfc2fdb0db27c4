/** Who an account is in a commit. */
import type { Signature } from '../../events/domain-events.ts'
import type { AccountDocument } from '../../projections/accounts.ts'

/** Author or committer at a moment (ISO 8601): the full name when there is one. */
export function signatureOf(account: AccountDocument, date: string): Signature {
  const name = account.fullName === '' ? account.login : account.fullName
  return { name, email: account.email, date }
}
