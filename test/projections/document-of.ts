/** Specifies a fold: given events, then a document. */
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import type { Fold } from '../../src/projections/projector/read-model.ts'

/** The time of the event at that index. */
export const at = (place: number) => new Date(Date.UTC(2026, 0, 2, 3, 4, place)).toISOString()

/** The document with that id after the events, which happen one second apart. `before` is the previous document. */
export function documentOf<D extends object>(
  fold: Fold<D>,
  id: string,
  events: readonly DomainEvent[],
  stream = 's',
  before?: D,
): D | undefined {
  return events.reduce<D | undefined>((document, event, i) => {
    const actor = { id: 1, login: 'alice' }
    const metadata = { actor, at: at(i), correlationId: 'c', causationId: 'c', schema: 1 }
    const place = { id: `${i}`, stream, revision: i, position: i + 1, metadata }
    const recorded: Recorded<DomainEvent> = { ...event, ...place }
    return fold.touches(recorded).includes(id) ? fold.evolve(document, recorded, id) : document
  }, before)
}
