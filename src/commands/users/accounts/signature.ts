/** Builds git signatures of accounts. */

import { shownEmail, usersByEmail } from '../../../api/users/users.ts'
import type { Signature } from '../../../events/catalog/branches.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../../services/services.ts'

/**
 * Returns the signature of an account for a date (ISO 8601), with the full name if any, and the address that the API
 * shows: a commit is public and permanent.
 */
export function signatureOf(
  { publicUrl }: Pick<Services, 'publicUrl'>,
  account: AccountDocument,
  date: string,
): Signature {
  const name = account.fullName === '' ? account.login : account.fullName
  return { name, email: shownEmail(account, publicUrl()), date }
}

/** Replaces the addresses of authors with accounts by those that the API shows. */
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
