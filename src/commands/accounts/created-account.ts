/** The account for the answer of the command that created it. */
import { decode } from '../../events/codec.ts'
import { type AccountDocument, accountFold } from '../../projections/accounts.ts'
import type { Services } from '../../services.ts'

/**
 * The document of an account that exists. When the projections lag, the document is folded from the account's own
 * events, so that a command that succeeded can still show what it created.
 */
export async function createdAccount(
  services: Services,
  stream: string,
  id: number,
): Promise<AccountDocument> {
  let account = await services.views.accounts.get(`${id}`)
  if (account !== undefined) return account
  for await (const event of services.events.readStream(stream)) {
    account = accountFold.evolve(account, decode(event), `${id}`)
  }
  if (account === undefined) throw new Error(`${stream} has no account ${id}`)
  return account
}
