/**
 * A pool of ids that an append took beyond the requested ones, while demand is high. A request that takes an id from the
 * pool needs no append, which may be a round trip to a server.
 *
 * Lists are sorted by id, so a later request must get a larger id than all earlier ones. Therefore only a server that is
 * alone takes ids ahead, and it drops them when a request takes an id of its own. An id expires after a second: a new server
 * may start while this one stops, and takes larger ids. Expired ids leave gaps, as a crash does.
 */
import { createRecentUse } from '../../concurrency/recent-use.ts'

/** Lifetime of an id, in milliseconds. */
const LIFETIME_MS = 1000
/** Half-life of the demand, in milliseconds: short, so that the ids are used before they expire. */
const HALF_LIFE_MS = 500
/** Maximum number of ids that are taken ahead. */
const MAX_AHEAD = 100

interface Taken {
  next: number
  last: number
  until: number
}

export interface IdsAhead {
  /** Removes and returns an id of this sequence; undefined when the pool is empty or expired. */
  take(sequence: string): number | undefined
  /** Returns the number of ids to take ahead when an append takes `asked` ids. 0 while demand is low. */
  aheadFor(sequence: string, asked: number): number
  /** Fills the pool with the ids from `first` to `last`. */
  fill(sequence: string, first: number, last: number): void
  /** Empties the pool. */
  clear(sequence: string): void
}

/** `now`: milliseconds of a clock that never goes back. */
export function createIdsAhead(now: () => number): IdsAhead {
  const demand = createRecentUse(HALF_LIFE_MS, now)
  const ahead = new Map<string, Taken>()

  return {
    take(sequence) {
      const taken = ahead.get(sequence)
      if (taken === undefined || taken.next > taken.last || now() >= taken.until) return undefined
      demand.add(sequence, 1)
      taken.next += 1
      return taken.next - 1
    },
    aheadFor(sequence, asked) {
      const count = Math.min(Math.floor(demand.of(sequence)), MAX_AHEAD)
      demand.add(sequence, asked)
      return count
    },
    fill(sequence, first, last) {
      ahead.set(sequence, { next: first, last, until: now() + LIFETIME_MS })
    },
    clear(sequence) {
      ahead.delete(sequence)
    },
  }
}
