/** Who may see an account. Pure. */
import type { AccountDocument } from '../projections/accounts.ts'

/** Whether `viewer` may see the account: every user sees a limited one, only its members see a private one. */
export function canSee(account: AccountDocument, viewer: AccountDocument | null): boolean {
  if (account.visibility === 'public') return true
  if (viewer === null) return false
  if (account.visibility === 'limited' || viewer.siteAdmin || viewer.id === account.id) return true
  return viewer.memberships[`${account.id}`] !== undefined
}
