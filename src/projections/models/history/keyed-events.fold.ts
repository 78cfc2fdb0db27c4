/**
 * Where the events of requests with an `Idempotency-Key` are. EventStoreDB finds an event by its id only among the newest
 * of a stream, and to read a long stream costs much; a request may be sent again at any time.
 */
import type { Position } from '../../../events/store/event-store.ts'
import type { Fold } from '../../projector/read-model.ts'

export interface KeyedEventDocument {
  /** Of the event. */
  id: string
  revision: number
  position: Position
}

/** SHA-256 in base64url. What processes and starts repeat has other digests. */
const DIGEST = /^[\w-]{43}$/

/** Whether the `request` of an event, or of one that is to be made, is the digest of a client's request. */
export const isKeyed = (request: string | undefined) => request !== undefined && DIGEST.test(request)

const NONE: readonly string[] = []

export const keyedEventFold: Fold<KeyedEventDocument> = {
  collection: { name: 'keyed_events', indexes: [], arrays: [] },
  version: 1,
  handles: () => true,
  touches: ({ id, metadata }) => (isKeyed(metadata.request) ? [id] : NONE),
  begins: () => true,
  creates: () => true,
  evolve: (_, { id, revision, position }) => ({ id, revision, position }),
}
