/** The ids of events. A retried request with an Idempotency-Key makes the same ids. */
import { randomUUID } from 'node:crypto'
import { v5 as uuidV5 } from 'uuid'

/** Identifies a request with an Idempotency-Key. */
export interface Retry {
  /** UUID namespace of the ids of its events. */
  readonly namespace: string
  /** Digest of its body. */
  readonly digest: string
}

/**
 * Makes a UUID of version 7, which begins with the time. Such ids are near each other in the index of the log: 32 events with
 * fully random ids would change 32 of its pages.
 */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/**
 * Returns the id of the i-th event that one step of a request appends to a stream. With an Idempotency-Key the id derives
 * from the key, so that the same step of a retried request is the same event.
 */
export function eventId(retry: Retry | undefined, stream: string, step: string, i: number): string {
  return retry === undefined ? newId() : uuidV5(`${stream}#${step}#${i}`, retry.namespace)
}
