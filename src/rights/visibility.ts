/** Who may see an account. */
import type { AccountDocument } from '../projections/accounts.ts'

/** Whether an account may be seen: a limited one by whoever is signed in, a private one by its members. */
export function canSee(account: AccountDocument, viewer: AccountDocument | null): boolean {
  if (account.visibility === 'public') return true
  if (viewer === null) return false
  if (account.visibility === 'limited' || viewer.siteAdmin || viewer.id === account.id) return true
  return viewer.memberships[`${account.id}`] !== undefined
}
