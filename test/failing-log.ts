import { type EventStore, StoreUnavailable } from '../src/events/store/event-store.ts'
import type { Services } from '../src/services/services.ts'

/** Makes appends fail from the n-th on: before it is written, or right after. */
export function failAppendsFrom(
  services: Pick<Services, 'events'>,
  n: number,
  when: 'before' | 'after',
): void {
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
