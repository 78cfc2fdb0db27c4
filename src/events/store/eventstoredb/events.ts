/** Events and positions of EventStoreDB, as those of the port. */
import type { ReadPosition, RecordedEvent as ServerEvent } from '@eventstore/db-client'
import { hasOurMetadata, type PassedOver } from '../damage.ts'
import { isEventMetadata, LOG_START, type Position, type RecordedEvent } from '../event-store.ts'

/** The largest revision, position or count. */
export const MOST = Number.MAX_SAFE_INTEGER

export function toReadPosition(position: Position): ReadPosition {
  if (position <= LOG_START) return 'start'
  if (position >= MOST) return 'end'
  return { commit: BigInt(position), prepare: BigInt(position) }
}

/**
 * Converts a server's event into one of the port. Returns undefined for an event that Mergelog did not write: the
 * server has system events (`$…`), and may hold events of other applications.
 */
export function toRecorded(event: ServerEvent): RecordedEvent | undefined {
  if (isSystemType(event.type) || event.streamId.startsWith('$')) return undefined
  const { streamId: stream, id, type, isJson, data, metadata } = event
  if (!isJson || typeof data !== 'object' || data === null || !isEventMetadata(metadata)) return undefined
  if (event.position === undefined)
    throw new Error('EventStoreDB 22.6 or later is needed: events lack positions')
  const position = toSafe(event.position.commit, 'position')
  return { id, type, data, metadata, stream, revision: toSafe(event.revision, 'revision'), position }
}

/**
 * The filter of a subscription, for the types of events: all except system events. The server compiles the expression
 * for each subscription, so it must be short: a list of all unwanted types took 0.3 s.
 */
export const NO_SYSTEM_EVENTS = '^[^\\$]'

/** Equals the filter of the subscription. */
export function isSystemType(type: string): boolean {
  return type.startsWith('$')
}

/** Whether an unreadable event was one of Mergelog's. */
export const isDamaged = ({ type, metadata }: ServerEvent) => !isSystemType(type) && hasOurMetadata(metadata)

export function toPassedOver(event: ServerEvent, position: Position): PassedOver {
  const { streamId: stream, type } = event
  return { stream, revision: toSafe(event.revision, 'revision'), position, type, isDamaged: isDamaged(event) }
}

/** @throws RangeError when the number is beyond 2^53 */
export function toSafe(value: bigint, what: string): number {
  if (value > BigInt(MOST))
    throw new RangeError(`${what} ${value} is beyond 2^53, the largest that Mergelog can hold`)
  return Number(value)
}
