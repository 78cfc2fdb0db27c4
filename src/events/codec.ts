/** Turns the log's JSON into domain events. Only here does recorded data get its type. */

import type { TSchema } from 'typebox'
import { ErrorWithRefusal, logDamaged, type Refusal } from '../errors/refusal.ts'
import { type Check, checkOf } from '../storage/checked-json.ts'
import { AccountRef, OrNull } from './catalog/parts.ts'
import { CATALOGUE, type DomainEvent, type Recorded } from './domain-events.ts'
import type { EventType } from './handlers.ts'
import type { RecordedEvent } from './store/event-store.ts'

/** How an event type got another shape: the schema number of the current one, and what lifts older data to it. */
export interface Reshaped {
  schema: number
  /** Takes data of an older schema, and its number. */
  upcast: (data: object, schema: number) => object
}

/** The event types whose data got another shape since a release. The schema number of all others is 1. */
const reshaped: Partial<Record<EventType, Reshaped>> = {}

/** The number of the current schema of a type's data. */
export const schemaOf = (type: EventType): number => reshaped[type]?.schema ?? 1

/**
 * An event that this version of Mergelog cannot understand: a newer version or another program wrote it, or its data is
 * damaged. An operator must act; until then what needs the event cannot be done.
 */
export class UnreadableEvent extends ErrorWithRefusal {
  override readonly name = 'UnreadableEvent'
  readonly refusal: Refusal

  constructor({ position, type, stream, revision }: RecordedEvent, problem: string) {
    super(`event ${position} (${type} in ${stream})${problem}`)
    this.refusal = logDamaged(
      `event ${revision} of stream ${stream} is damaged, or of a newer version of the server: it cannot be read`,
    )
  }
}

/** The types of events that this version knows. */
export const KNOWN_TYPES: readonly string[] = Object.keys(CATALOGUE)

/** Whether this version knows events of a type. If not, nobody can say whom they concern. */
export function isKnownType(type: string): type is EventType {
  return Object.hasOwn(CATALOGUE, type)
}

/** The event with data of the current schema. @throws UnreadableEvent when its type is unknown, or its schema is newer */
export function upcast(event: RecordedEvent, { schema, upcast: lift }: Reshaped): RecordedEvent {
  const { data, metadata } = event
  if (metadata.schema > schema) throw new UnreadableEvent(event, ' has an unknown type or schema')
  if (metadata.schema === schema) return event
  return { ...event, data: lift(data, metadata.schema), metadata: { ...metadata, schema } }
}

/**
 * Reads a recorded event as a domain event in its current shape.
 * @throws UnreadableEvent when the type is unknown, the schema is newer than this version's, or the data or the actor
 *   does not have the shape that the type says
 */
export function decode(recorded: RecordedEvent): Recorded<DomainEvent> {
  const { type } = recorded
  if (!isKnownType(type)) throw new UnreadableEvent(recorded, ' has an unknown type or schema')
  const event = upcast(recorded, reshaped[type] ?? UNCHANGED)
  if (!isDomainEvent(event)) throw new UnreadableEvent(event, `: ${problemIn(event)}`)
  return event
}

const UNCHANGED: Reshaped = { schema: 1, upcast: (data) => data }

/**
 * Refuses an event that `decode` could not read: in the log it would stop every read model, on all nodes. So a mistake in a
 * command fails one request. @throws TypeError
 */
export function requireReadable({ type, data }: DomainEvent): void {
  const check = checks.get(type)
  if (check?.(data) === false) throw new TypeError(`${type} is not recorded: ${check.problem(data, 'data')}`)
}

/** The check of the data of each type. */
const checks: ReadonlyMap<string, Check<unknown>> = new Map(
  Object.entries<TSchema>(CATALOGUE).map(([type, schema]) => [type, checkOf(schema)]),
)
const isActor = checkOf(OrNull(AccountRef))

/** The data has its type's shape, and the metadata names an account as folds read it. */
function isDomainEvent(event: RecordedEvent): event is Recorded<DomainEvent> {
  const { type, data, metadata } = event
  return checks.get(type)?.(data) === true && isActor(metadata.actor)
}

function problemIn({ type, data, metadata }: RecordedEvent): string {
  const check = checks.get(type)
  return check === undefined || check(data)
    ? isActor.problem(metadata.actor, 'metadata.actor')
    : check.problem(data, 'data')
}
