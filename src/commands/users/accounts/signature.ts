/** How a commit names an account. */

import { shownEmail, usersByEmail } from '../../../api/users/users.ts'
import type { Signature } from '../../../events/catalog/branches.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../../services/services.ts'

/**
 * The author or committer for a date (ISO 8601), with the full name if the account has one, and with the address that
 * the API shows: a commit is public, and nobody can take it back.
 */
export function signatureOf(
  { publicUrl }: Pick<Services, 'publicUrl'>,
  account: AccountDocument,
  date: string,
): Signature {
  const name = account.fullName === '' ? account.login : account.fullName
  return { name, email: shownEmail(account, publicUrl()), date }
}

/** The same people, with the addresses that the API shows of those who have an account. */
export async function shownAuthors(
  services: Pick<Services, 'views' | 'publicUrl'>,
  authors: readonly Signature[],
): Promise<Signature[]> {
  const accounts = await usersByEmail(
    services,
    authors.map(({ email }) => email),
  )
  return authors.map((author) => {
    const account = accounts.get(author.email)
    return account === undefined ? author : { ...author, email: shownEmail(account, services.publicUrl()) }
  })
}
