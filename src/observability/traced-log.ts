/** The event store with a span for each call in the trace of its request. */
import type { EventStore, RecordedEvent } from '../events/store/event-store.ts'
import type { Tracing } from './tracing.ts'

/** `system`: OpenTelemetry's name of the database. */
export function tracedLog(events: EventStore, tracing: Tracing, system: string): EventStore {
  const attributes = (stream: string) => ({ 'db.system.name': system, 'mergelog.stream': stream })

  async function* read(name: string, stream: string, found: AsyncIterable<RecordedEvent>) {
    const end = tracing.part(name, attributes(stream))
    try {
      yield* found
    } finally {
      end()
    }
  }

  const { appendTogether } = events
  return {
    ...events,
    append: (stream, all, expected) =>
      tracing.step('log append', { ...attributes(stream), 'mergelog.events': all.length }, () => {
        tracing.appended()
        return events.append(stream, all, expected)
      }),
    ...(appendTogether && {
      appendTogether: (builders) =>
        tracing.step('log append', attributes('several'), () => {
          tracing.appended()
          return appendTogether(builders)
        }),
    }),
    readStream: (stream, options) => read('log read', stream, events.readStream(stream, options)),
    lastPosition: () => tracing.step('log end', attributes('$all'), () => events.lastPosition()),
  }
}
