/**
 * Makes the end of a sign-in effective at once, even while read models lag or have stopped: recent changes of this
 * server are read from the account's own stream.
 */
import { decode } from '../events/codec.ts'
import { userStream } from '../events/streams.ts'
import { type AccountDocument, accountFold } from '../projections/models/users/accounts.fold.ts'
import type { Services } from '../services/services.ts'

type Stores = Pick<Services, 'events' | 'views' | 'accountChanges'> & {
  projector: Pick<Services['projector'], 'position'>
}

/** Returns the current account for a document that may be outdated. A current document costs no read. */
export async function currentAccount(stores: Stores, document: AccountDocument): Promise<AccountDocument> {
  const { events, views, projector } = stores
  const { positions } = stores.accountChanges
  const changed = positions.get(document.id)
  const isPassed = changed === undefined || changed <= projector.position()
  if (document.kind !== 'user' || (isPassed && !views.accounts.hasStopped())) {
    positions.delete(document.id)
    return document
  }
  let newest: AccountDocument | undefined
  for await (const recorded of events.readStream(userStream(document.id))) {
    const event = decode(recorded)
    if (accountFold.handles(event)) newest = accountFold.evolve(newest, event, `${document.id}`)
  }
  // Memberships and teams are in the streams of the organizations, and stars in their own.
  const { memberships, teams, teamIds, organizationIds, stars } = document
  return newest === undefined ? document : { ...newest, memberships, teams, teamIds, organizationIds, stars }
}
