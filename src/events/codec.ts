/** From the log's JSON to domain events: the one place where recorded data gets its type. */
import { type DomainEvent, type Recorded, schemaOf } from './domain-events.ts'
import type { RecordedEvent } from './event-store.ts'

/** Lifts the data of an event type from an older schema to the current one. */
const upcasters: Partial<Record<DomainEvent['type'], (data: object, schema: number) => object>> = {
  PullRequestOpened: (data) => ({ ...data, labels: [], milestone: null, assignees: [], deadline: null }),
  MergeStarted: (data) => ({ ...data, mergeBase: null, deleteBranch: false }),
  PullRequestMerged: (data) => ({
    ...data,
    style: 'merge',
    mergeBase: null,
    milestone: null,
    deleteBranch: false,
  }),
}

/** An event that this version of Mergelog can't understand: written by a newer one, or not by Mergelog. */
export class UnreadableEvent extends Error {
  override readonly name = 'UnreadableEvent'
}

/**
 * The domain event that was recorded, in its current shape.
 * @throws UnreadableEvent for an unknown type or a schema of the future
 */
export function decode(event: RecordedEvent): Recorded<DomainEvent> {
  if (!isKnown(event)) {
    throw new UnreadableEvent(
      `event ${event.position} (${event.type} in ${event.stream}) has an unknown type or schema`,
    )
  }
  const lift = upcasters[event.type]
  const schema = schemaOf[event.type]
  if (lift === undefined || event.metadata.schema === schema) return event
  return decode({
    ...event,
    data: lift(event.data, event.metadata.schema),
    metadata: { ...event.metadata, schema },
  })
}

// Only Mergelog writes to its log, so a known type with a known schema has that type's data.
function isKnown(event: RecordedEvent): event is Recorded<DomainEvent> {
  if (!Object.hasOwn(schemaOf, event.type)) return false
  const current: Record<string, number> = schemaOf
  return event.metadata.schema <= (current[event.type] ?? 0)
}
