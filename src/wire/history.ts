/**
 * A recorded event on the wire, with all of its data: ids of other repositories are shown (a dependency's, a pull
 * request's head; of a fork also its parent's name) though the requester may not read these, and the texts of deleted
 * comments stay readable, as the log is only ever appended to.
 */

import { type Static, Type } from 'typebox'
import { decode, UnreadableEvent } from '../events/codec.ts'
import type { RecordedEvent } from '../events/event-store.ts'
import { Nullable } from './nullable.ts'

export const HistoryWire = Type.Object({
  revision: Type.Integer({ description: 'place in its stream, from 0' }),
  position: Type.Integer({ description: 'place in the whole log; grows, with gaps' }),
  id: Type.String(),
  type: Type.String(),
  at: Type.String(),
  actor: Nullable(Type.Object({ id: Type.Integer(), login: Type.String() }), {
    description: 'who did it; null: the server itself',
  }),
  stream: Type.String(),
  data: Type.Unsafe<object>({ type: 'object', additionalProperties: true }),
  correlation_id: Type.String({ description: 'the same for all that one request led to' }),
  causation_id: Type.String({ description: 'the request, or the id of the event that led to this one' }),
  hash: Nullable(Type.String(), {
    description:
      'over the event as it was recorded, and so over all before it in its stream; null in old logs',
  }),
  previous_hash: Nullable(Type.String(), {
    description: 'hash of the event before it in its stream; null for the first',
  }),
})

/** In the shape that this version gives its data, whatever it was recorded in. */
export function historyWire(recorded: RecordedEvent): Static<typeof HistoryWire> {
  const { revision, position, id, type, stream, data, metadata } = current(recorded)
  const { at, actor, correlationId, causationId, hash = null, previous = null } = metadata
  return {
    revision,
    position,
    id,
    type,
    at,
    actor: actor === null ? null : { id: actor.id, login: actor.login },
    stream,
    data,
    correlation_id: correlationId,
    causation_id: causationId,
    hash,
    previous_hash: previous,
  }
}

/** The same as one line of JSON. */
export function historyJson(recorded: RecordedEvent): string {
  return JSON.stringify(historyWire(recorded))
}

/** What a newer version recorded is shown as it is. */
function current(recorded: RecordedEvent): RecordedEvent {
  try {
    return decode(recorded)
  } catch (error) {
    if (error instanceof UnreadableEvent) return recorded
    throw error
  }
}
