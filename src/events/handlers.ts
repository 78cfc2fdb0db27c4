/** Maps from event type to function. Unlike in a switch, the compiler reports missing types. */
import type { DomainEvent, Envelope } from './domain-events.ts'

type ByType = { [E in DomainEvent as E['type']]: E }

export type EventType = keyof ByType

/**
 * Events of these types. `E` adds fields besides type and data. As an indexed mapped type, because only then the compiler
 * matches an event with the handler of its type.
 */
export type EventOf<T extends EventType, E = unknown> = { [P in T]: ByType[P] & { type: P } & E }[T]

/** Recorded events of these types. */
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
 * Creates a type guard for events with a handler. A type named like a property of every object (`constructor`) has no
 * handler.
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
