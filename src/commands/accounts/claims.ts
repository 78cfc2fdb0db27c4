/** Claims of names that only one account can have: logins (of users and organizations alike) and e-mail addresses. */
import { decode } from '../../events/codec.ts'
import type { EventStore } from '../../events/event-store.ts'
import { claimKeys } from '../../events/streams.ts'
import { takeClaim } from '../claims.ts'
import type { CommandContext } from '../execute.ts'

/** Claims a login for the stream of a new account. Resolves to false when another account has it. */
export function takeLogin(
  store: EventStore,
  context: CommandContext,
  login: string,
  holder: string,
): Promise<boolean> {
  const key = claimKeys.login(login)
  return take(store, context, key, holder, (account) => claimKeys.login(account.login) === key)
}

/** Claims an e-mail address for the stream of a new user. Resolves to false when another user has it. */
export function takeEmail(
  store: EventStore,
  context: CommandContext,
  email: string,
  holder: string,
): Promise<boolean> {
  const key = claimKeys.email(email)
  return take(store, context, key, holder, (account) => claimKeys.email(account.email) === key)
}

async function take(
  store: EventStore,
  context: CommandContext,
  key: string,
  holder: string,
  holds: (account: { login: string; email: string }) => boolean,
): Promise<boolean> {
  const stillHolds = async (other: string) => {
    const account = await createdIn(store, other)
    return account !== undefined && holds(account)
  }
  const { taken } = await takeClaim(store, context, { key, holder, stillHolds })
  return taken
}

/** The account that the first event of a stream creates. */
async function createdIn(store: EventStore, stream: string) {
  for await (const recorded of store.readStream(stream, { maxCount: 1 })) {
    const event = decode(recorded)
    if (event.type === 'UserCreated' || event.type === 'OrganizationCreated') return event.data
  }
  return undefined
}
