/** Adds the node's name to the metadata of each appended event. */
import type { Append, EventStore, NewEvent } from './event-store.ts'

/** Wraps a log. A retried append stays unchanged: the store knows events by their ids, so the first node's name stays. */
export function writtenBy(node: string, events: EventStore): EventStore {
  // V8 is about ten times slower at a literal that begins with a spread and then adds a field.
  const named = (all: readonly NewEvent[]): NewEvent[] =>
    all.map((event) => ({ ...event, metadata: Object.assign({}, event.metadata, { node }) }))
  const { appendTogether } = events
  return {
    ...events,
    append: (stream, all, expected) => events.append(stream, named(all), expected),
    ...(appendTogether && {
      appendTogether: (makers) =>
        appendTogether(
          makers.map((make) => (before): Append => {
            const one = make(before)
            return { ...one, events: named(one.events) }
          }),
        ),
    }),
  }
}
