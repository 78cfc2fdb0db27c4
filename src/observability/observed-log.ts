/** The log with metrics of the duration and outcome of each append. */

import { ErrorWithRefusal } from '../errors/refusal.ts'
import { type Appended, type EventStore, WrongExpectedRevision } from '../events/store/event-store.ts'
import type { AppendOutcome, Metrics } from './metrics.ts'

const outcomeOf = (error: unknown): AppendOutcome => {
  if (error instanceof WrongExpectedRevision) return 'conflict'
  return error instanceof ErrorWithRefusal && error.refusal.refused !== 'unavailable' ? 'refused' : 'failed'
}

export function observedLog(events: EventStore, metrics: Pick<Metrics, 'appended'>): EventStore {
  async function observed<T>(
    work: Promise<T>,
    ended: (result: T) => [events: number, last: Appended | undefined],
  ) {
    const begun = performance.now()
    try {
      const result = await work
      metrics.appended('ok', performance.now() - begun, ...ended(result))
      return result
    } catch (error) {
      metrics.appended(outcomeOf(error), performance.now() - begun)
      throw error
    }
  }

  const { appendTogether } = events
  return {
    ...events,
    append: (stream, all, expected) =>
      observed(events.append(stream, all, expected), (last) => [all.length, last]),
    ...(appendTogether && {
      appendTogether: (builders) => {
        const counts: number[] = []
        const counted = builders.map((build, i) => (before: readonly Appended[]) => {
          const one = build(before)
          counts[i] = one.events.length
          return one
        })
        return observed(appendTogether(counted), (all) => [counts.reduce((sum, n) => sum + n, 0), all.at(-1)])
      },
    }),
  }
}
