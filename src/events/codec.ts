/** Decodes the log's JSON into typed domain events. */

import type { TSchema } from 'typebox'
import { ErrorWithRefusal, logDamaged, type Refusal } from '../errors/refusal.ts'
import { type Check, checkOf } from '../storage/checked-json.ts'
import { AccountRef, OrNull } from './catalog/parts.ts'
import { CATALOGUE, type DomainEvent, type Recorded } from './domain-events.ts'
import type { EventType } from './handlers.ts'
import type { RecordedEvent } from './store/event-store.ts'

/** A changed event type: the number of its current schema, and the upcaster for older data. */
export interface Reshaped {
  schema: number
  /** Converts data of an older schema, given its number. */
  upcast: (data: object, schema: number) => object
}

/** Event types whose data has changed since a release. All others have schema 1. */
const reshaped: Partial<Record<EventType, Reshaped>> = {}

/** Returns the number of the current schema of a type's data. */
export const schemaOf = (type: EventType): number => reshaped[type]?.schema ?? 1

/**
 * An event that this version cannot decode: a newer version or another program wrote it, or its data is damaged. Until an
 * operator acts, commands and queries that need the event fail.
 */
export class UnreadableEvent extends ErrorWithRefusal {
  override readonly name = 'UnreadableEvent'
  readonly refusal: Refusal

  constructor({ position, type, stream, revision }: RecordedEvent, problem: string) {
    super(`event ${position} (${type} in ${stream})${problem}`)
    this.refusal = logDamaged(
      `event ${revision} of stream ${stream} cannot be read: it is damaged, or from a newer version of the server`,
    )
  }
}

/** The types of events that this version knows. */
export const KNOWN_TYPES: readonly string[] = Object.keys(CATALOGUE)

/** Whether this version knows an event type. */
export function isKnownType(type: string): type is EventType {
  return Object.hasOwn(CATALOGUE, type)
}

/** Converts the event to the current schema. @throws UnreadableEvent for an unknown type or a newer schema */
export function upcast(event: RecordedEvent, { schema, upcast: lift }: Reshaped): RecordedEvent {
  const { data, metadata } = event
  if (metadata.schema > schema) throw new UnreadableEvent(event, ' has an unknown type or schema')
  if (metadata.schema === schema) return event
  return { ...event, data: lift(data, metadata.schema), metadata: { ...metadata, schema } }
}

/**
 * Decodes a recorded event in its current shape.
 * @throws UnreadableEvent for an unknown type, a newer schema, or data or an actor of another shape
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
 * Rejects an event that `decode` could not read, so that a bug in a command fails one request instead of stopping every
 * read model. @throws TypeError
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

/** Whether the data has its type's shape, and the metadata names an account as folds expect it. */
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
