/** Stops read models at events that they cannot read or fold. */
import type { FastifyBaseLogger } from 'fastify'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import type { Progress } from '../generations/shared-models.ts'
import type { Poison } from './read-model.ts'

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

const placeOf = ({ position, type, stream, revision }: RecordedEvent) =>
  `event ${position} (${type}, ${stream}@${revision})`

/** Returns the reason of a stop, with the place of the event. */
export const reasonOf = ({ event, error }: Poison) => `${placeOf(event)}: ${messageOf(error)}`

/** Stops models at events that they could not fold, with one log line per event. */
export function stopModels(
  log: FastifyBaseLogger,
  poisoned: readonly { p: Progress; poison: Poison }[],
): void {
  for (const event of new Set(poisoned.map(({ poison }) => poison.event))) {
    const there = poisoned.filter(({ poison }) => poison.event === event)
    for (const { p, poison } of there) p.stopped = reasonOf(poison)
    const models = there.map(({ p }) => p.model.name)
    const reasons = new Set(there.map(({ poison }) => messageOf(poison.error)))
    log.error(
      { err: there[0]?.poison.error, models, position: event.position },
      `read models stopped at ${placeOf(event)}: ${[...reasons].join('; ')} (${models.join(', ')})`,
    )
  }
}
