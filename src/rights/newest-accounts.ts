/**
 * What ends a sign-in counts at once, also while the read models lag or stand still: what this server has changed in an
 * account is looked up in the account's own stream until they have it.
 */
import { decode } from '../events/codec.ts'
import type { EventStore, Position } from '../events/event-store.ts'
import { userStream } from '../events/streams.ts'
import { perStore } from '../per-store.ts'
import { type AccountDocument, accountFold } from '../projections/accounts.ts'
import type { Services } from '../services.ts'

interface Changes {
  /** The position of the last change, by account id. An entry goes when the read models have passed it. */
  positions: Map<number, Position>
  listeners: Set<(accountId: number) => void>
}

const changesOf = perStore<EventStore, Changes>(() => ({ positions: new Map(), listeners: new Set() }))

type Stores = Pick<Services, 'events' | 'views'> & { projector: Pick<Services['projector'], 'position'> }

/** Notes that a user, its password or one of its tokens was changed, by an event at this position. */
export function noteAccountChange(events: EventStore, accountId: number, position: Position): void {
  const { positions, listeners } = changesOf(events)
  positions.set(accountId, Math.max(position, positions.get(accountId) ?? position))
  for (const listener of listeners) listener(accountId)
}

/** Calls the listener with the id of each account that this server changes. */
export function onAccountChange(events: EventStore, listener: (accountId: number) => void): void {
  changesOf(events).listeners.add(listener)
}

/** The account as it is now, by a document that may be older. A document that is current costs nothing. */
export async function newestAccount(stores: Stores, document: AccountDocument): Promise<AccountDocument> {
  const { events, views, projector } = stores
  const { positions } = changesOf(events)
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
