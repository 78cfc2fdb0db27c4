/** Claims of names that only one account can have: logins (of users and organizations alike) and e-mail addresses. */
import { decode } from '../../../events/codec.ts'
import type { EventStore } from '../../../events/store/event-store.ts'
import { claimKeys } from '../../../events/streams.ts'
import { type Claim, claimHolder, takeClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/execute.ts'

/** Claims a login or an e-mail address for the stream of a new account. Resolves to false when another one has it. */
export async function takeName(
  store: EventStore,
  context: CommandContext,
  kind: 'login' | 'email',
  name: string,
  holder: string,
): Promise<boolean> {
  return (await takeClaim(store, context, { ...claimOf(store, kind, name), holder })).taken
}

/** The stream of the account that has a login or an e-mail address; undefined when it is free. */
export function holderOfName(
  store: EventStore,
  kind: 'login' | 'email',
  name: string,
): Promise<string | undefined> {
  return claimHolder(store, claimOf(store, kind, name))
}

function claimOf(store: EventStore, kind: 'login' | 'email', name: string): Omit<Claim, 'holder'> {
  const key = claimKeys[kind](name)
  return {
    key,
    async stillHolds(other) {
      const account = await accountIn(store, other)
      if (account === undefined) return false
      const names = kind === 'login' ? [account.login] : [account.email, ...account.emails]
      return names.some((one) => claimKeys[kind](one) === key)
    },
  }
}

/** The names of the account in a stream, as they are now. A deleted user keeps the login: events name accounts by it. */
async function accountIn(store: EventStore, stream: string) {
  let account: { login: string; email: string; emails: string[] } | undefined
  for await (const recorded of store.readStream(stream)) {
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
