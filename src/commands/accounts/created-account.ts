/** The answer to a command that made an account. */
import { decode } from '../../events/codec.ts'
import { type AccountDocument, accountFold } from '../../projections/accounts.ts'
import type { Services } from '../../services.ts'

/**
 * The document of an account that exists. When the projections lag it is folded here, from the account's own
 * events, so that a command that succeeded can say what it made.
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
