/** A function for each type of event, in place of a switch: a type is named once, and the compiler knows all of them. */
import type { DomainEvent, Envelope } from './domain-events.ts'

type ByType = { [E in DomainEvent as E['type']]: E }

export type EventType = keyof ByType

/**
 * The events of these types; `E`: what they have besides type and data. As a type that is mapped and then looked up by
 * its own keys it tells the compiler that an event fits the handler of its type.
 */
export type EventOf<T extends EventType, E = unknown> = { [P in T]: ByType[P] & { type: P } & E }[T]

/** The events of these types as the log has them. */
export type RecordedOf<T extends EventType> = EventOf<T, Envelope>

/** What each type of event makes of a subject. */
export type Handlers<
  T extends EventType,
  Subject,
  Result = Subject,
  E = unknown,
  Rest extends unknown[] = [],
> = {
  readonly [P in T]: (subject: Subject, event: EventOf<P, E>, ...rest: Rest) => Result
}

/** Tells the events that the handlers are for. A type that any object has as a property (`constructor`) is not one. */
export function handledBy<T extends EventType, E = unknown>(
  handlers: Readonly<Record<T, unknown>> | undefined,
): (event: { type: string }) => event is EventOf<T, E> {
  const types = new Set(Object.keys(handlers ?? {}))
  return (event): event is EventOf<T, E> => types.has(event.type)
}

/** What the event makes of the subject. */
export function handle<T extends EventType, Subject, Result, E>(
  handlers: Handlers<T, Subject, Result, E>,
  subject: Subject,
  event: EventOf<T, E>,
): Result {
  const { type }: { type: T } = event
  return handlers[type](subject, event)
}
