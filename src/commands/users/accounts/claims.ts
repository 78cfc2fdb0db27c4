/** Claims logins (of users and organizations) and e-mail addresses, each for one account. */
import { decode } from '../../../events/codec.ts'
import { claimKeys } from '../../../events/streams.ts'
import type { WriteServices } from '../../../services/services.ts'
import { type Claim, claimHolder, takeClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/command-context.ts'

/** Claims a login or an e-mail address for the stream of an account. Resolves to false when it is taken. */
export async function claimName(
  services: WriteServices,
  context: CommandContext,
  kind: 'login' | 'email',
  name: string,
  holder: string,
): Promise<boolean> {
  return (await takeClaim(services, context, { ...claimOf(services, kind, name), holder })).taken
}

/** Returns the stream of the account with a login or e-mail address; undefined when it is free. */
export function holderOfName(
  services: WriteServices,
  kind: 'login' | 'email',
  name: string,
): Promise<string | undefined> {
  return claimHolder(services, claimOf(services, kind, name))
}

function claimOf(services: WriteServices, kind: 'login' | 'email', name: string): Omit<Claim, 'holder'> {
  const key = claimKeys[kind](name)
  return {
    key,
    async stillHolds(other) {
      const account = await accountIn(services, other)
      if (account === undefined) return false
      const names = kind === 'login' ? [account.login] : [account.email, ...account.emails]
      return names.some((one) => claimKeys[kind](one) === key)
    },
  }
}

/**
 * Returns the present names of the account in a stream. A deleted user keeps the login, since events name accounts by
 * it.
 */
async function accountIn({ events }: WriteServices, stream: string) {
  let account: { login: string; email: string; emails: string[] } | undefined
  for await (const recorded of events.readStream(stream)) {
    const event = decode(recorded)
    if (event.type === 'UserCreated' || event.type === 'OrganizationCreated') {
      account = { ...event.data, emails: [] }
    }
    if (account === undefined) continue
    if (event.type === 'UserEdited') account = { ...account, ...event.data.changes }
    const { emails }: { emails: string[] } = account
    if (event.type === 'EmailAdded') account = { ...account, emails: [...emails, event.data.email] }
    if (event.type === 'EmailRemoved') {
      account = { ...account, emails: emails.filter((email) => email !== event.data.email) }
    }
    if (event.type === 'UserDeleted') account = { ...account, email: '', emails: [] }
  }
  return account
}
