/** How a commit names an account. */
import type { Signature } from '../../events/domain-events.ts'
import type { AccountDocument } from '../../projections/accounts.ts'

/** The author or committer for a date (ISO 8601), with the full name if the account has one. */
export function signatureOf(account: AccountDocument, date: string): Signature {
  const name = account.fullName === '' ? account.login : account.fullName
  return { name, email: account.email, date }
}
