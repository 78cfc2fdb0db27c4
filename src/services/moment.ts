/**
 * The past moment that the current request reads. Views answer from its documents instead of present ones, so queries
 * need not know about time travel.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Position } from '../events/store/event-store.ts'
import type { Views } from '../projections/views/views.ts'

/** The resource whose past is read. */
export interface Subject {
  kind: 'repository' | 'organization' | 'user'
  id: number
}

/** The last event of a subject up to a moment. */
export interface MomentPoint {
  /** The last event that the moment includes. */
  position: Position
  /** The time of that event: ISO 8601 in UTC, with milliseconds. */
  at: string
}

export interface Moment extends MomentPoint {
  views: Views
}

/** A moment whose documents stay readable until it is released. */
interface OpenMoment extends Moment {
  release(): void
}

/** A place in the log, or the end of a time: ISO 8601 in UTC, with milliseconds. */
export type WantedMoment = { position: Position } | { at: string }

/** The client of a moment, for fair scheduling and abort. */
export interface MomentClient {
  /** Key of the quota. */
  client: string
  /** Aborted when the client no longer needs the moment. */
  gone?: AbortSignal | undefined
}

export interface Moments {
  /**
   * Returns the last event of the subject up to the moment, and whether the subject has later events; undefined when it
   * had no event yet.
   * @throws StoreUnavailable
   */
  resolve(subject: Subject, wanted: WantedMoment): Promise<(MomentPoint & { isNow: boolean }) | undefined>
  /**
   * Opens the documents of the subject as they were after an event that `resolve` returned. The caller releases it.
   * @throws SlotsFull, StoreUnavailable, the reason of `gone`, Refused (insufficient storage)
   */
  open(subject: Subject, point: MomentPoint, client: MomentClient): Promise<OpenMoment>
  /** Removes all cached moments: texts of theirs were erased. Resolves when no file of theirs has a name. */
  forget(): Promise<void>
  /** Number of cached moments, and the size of their files in bytes. */
  cached(): { moments: number; bytes: number }
  close(): Promise<void>
}

const moments = new AsyncLocalStorage<Moment>()

/** The moment of the current request; undefined in the present. */
export const currentMoment = (): Moment | undefined => moments.getStore()

/** Runs `work`, and everything that it starts, at a moment. */
export const runAt = <T>(moment: Moment, work: () => T): T => moments.run(moment, work)

/** Runs `work`, and everything that it starts, in the present. */
export const runNow = <T>(work: () => T): T => moments.exit(work)

/** Views that answer from the moment of the current request, and from `present` without one. */
export function viewsOfMoment(present: Views): Views {
  const views = new Map<string | symbol, object>(
    Object.entries(present).map(([name, view]) => [
      name,
      new Proxy<object>(view, {
        get(now, method) {
          const moment = currentMoment()
          return Reflect.get(moment === undefined ? now : Reflect.get(moment.views, name), method)
        },
      }),
    ]),
  )
  return new Proxy(present, { get: (_, name) => views.get(name) })
}
