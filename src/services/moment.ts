/**
 * The past moment that the current request reads. Views answer from its documents instead of present ones, so queries
 * need not know about time travel.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Position } from '../events/store/event-store.ts'
import type { Views } from '../projections/views/views.ts'

export interface Moment {
  /** The last event that it includes. */
  position: Position
  /** The time of that event: ISO 8601 in UTC, with milliseconds. */
  at: string
  views: Views
}

const moments = new AsyncLocalStorage<Moment>()

/** The moment of the current request; undefined in the present. */
export const currentMoment = (): Moment | undefined => moments.getStore()

/** Runs `work`, and everything that it starts, at a moment. */
export const runAt = <T>(moment: Moment, work: () => T): T => moments.run(moment, work)
