import { type EventStore, StoreUnavailable } from '../src/events/store/event-store.ts'
import type { Services } from '../src/services/services.ts'

/** The log takes nothing any more from the n-th append on: before it writes that one, or right after. */
export function dieAt(services: Pick<Services, 'events'>, n: number, when: 'before' | 'after'): void {
  const { events } = services
  let appends = 0
  const append: EventStore['append'] = async (...args) => {
    appends += 1
    if (appends > n || (appends === n && when === 'before')) throw new StoreUnavailable('died')
    const appended = await events.append(...args)
    if (appends === n) throw new StoreUnavailable('died')
    return appended
  }
  services.events = { ...events, append }
}
