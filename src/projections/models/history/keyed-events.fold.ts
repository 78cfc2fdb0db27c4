/**
 * The positions of events of requests with an `Idempotency-Key`, so that a late retry finds its event. EventStoreDB
 * looks up an event id only among the newest events of a stream.
 */
import type { Position } from '../../../events/store/event-store.ts'
import type { Fold } from '../../projector/read-model.ts'

export interface KeyedEventDocument {
  /** Id of the event. */
  id: string
  revision: number
  position: Position
}

/** SHA-256 in base64url. Retries of processes and starts have digests of another form. */
const DIGEST = /^[\w-]{43}$/

/** Whether the `request` of an event is the digest of a client's request. */
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
