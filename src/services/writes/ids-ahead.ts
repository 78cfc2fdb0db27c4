/**
 * Ids that one append took together with those that were asked for, while many are asked for. Where an append is a round
 * trip to a server, a request for such an id does not wait for one.
 *
 * Lists are sorted by id, so a later request must get a larger id than all earlier ones. Therefore only a server that is
 * alone takes ids ahead, and it forgets them when a request takes an id of its own. An id that is not used within a second
 * is never given: a new server may start while this one stops, and takes larger ids. Such gaps are like those after a crash.
 */
import { createRecentUse } from '../../concurrency/recent-use.ts'

/** For how long an id may be given, in milliseconds. */
const USABLE_MS = 1000
/** What was asked for counts half after this time: then what is taken ahead is used up before it is too old. */
const HALF_LIFE_MS = 500
/** The most ids that are taken ahead. */
const MOST_AHEAD = 100

interface Taken {
  next: number
  last: number
  until: number
}

export interface IdsAhead {
  /** An id of this sequence that may be given now; undefined when there is none. Each is given once. */
  give(sequence: string): number | undefined
  /** How many ids of this sequence to take ahead, when `asked` are asked for. None where few are asked for. */
  worth(sequence: string, asked: number): number
  /** Keeps the ids from `first` to `last`, which were taken ahead. */
  keep(sequence: string, first: number, last: number): void
  /** Drops the ids that were taken ahead: they are never given. */
  forget(sequence: string): void
}

/** `now`: milliseconds of a clock that never goes back. */
export function createIdsAhead(now: () => number): IdsAhead {
  const demand = createRecentUse(HALF_LIFE_MS, now)
  const ahead = new Map<string, Taken>()

  return {
    give(sequence) {
      const taken = ahead.get(sequence)
      if (taken === undefined || taken.next > taken.last || now() >= taken.until) return undefined
      demand.add(sequence, 1)
      taken.next += 1
      return taken.next - 1
    },
    worth(sequence, asked) {
      const worth = Math.min(Math.floor(demand.of(sequence)), MOST_AHEAD)
      demand.add(sequence, asked)
      return worth
    },
    keep(sequence, first, last) {
      ahead.set(sequence, { next: first, last, until: now() + USABLE_MS })
    },
    forget(sequence) {
      ahead.delete(sequence)
    },
  }
}
