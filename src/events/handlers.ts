/** Maps from event type to function. Unlike in a switch, the compiler checks that none is missing. */
import type { DomainEvent, Envelope } from './domain-events.ts'

type ByType = { [E in DomainEvent as E['type']]: E }

export type EventType = keyof ByType

/**
 * The events of these types. `E` holds what they have besides type and data. The type is written as a mapped type that
 * is indexed by its own keys: only then does the compiler see that an event fits the handler of its type.
 */
export type EventOf<T extends EventType, E = unknown> = { [P in T]: ByType[P] & { type: P } & E }[T]

/** The events of these types, as they were read from the log. */
export type RecordedOf<T extends EventType> = EventOf<T, Envelope>

/** One function for each type: it takes the subject and the event, and returns the result. */
export type Handlers<
  T extends EventType,
  Subject,
  Result = Subject,
  E = unknown,
  Rest extends unknown[] = [],
> = {
  readonly [P in T]: (subject: Subject, event: EventOf<P, E>, ...rest: Rest) => Result
}

/**
 * A test for the events that have a handler. A type that is named like a property of every object (`constructor`) has
 * no handler.
 */
export function handledBy<T extends EventType, E = unknown>(
  handlers: Readonly<Record<T, unknown>> | undefined,
): (event: { type: string }) => event is EventOf<T, E> {
  const types = new Set(Object.keys(handlers ?? {}))
  return (event): event is EventOf<T, E> => types.has(event.type)
}

/** Calls the handler of the event's type. */
export function handle<T extends EventType, Subject, Result, E, Rest extends unknown[] = []>(
  handlers: Handlers<T, Subject, Result, E, Rest>,
  subject: Subject,
  event: EventOf<T, E>,
  ...rest: Rest
): Result {
  const { type }: { type: T } = event
  return handlers[type](subject, event, ...rest)
}
