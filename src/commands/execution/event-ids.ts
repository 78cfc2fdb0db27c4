/** The ids of events. Those of a request with an Idempotency-Key are the same each time that it is sent. */
import { randomUUID } from 'node:crypto'
import { v5 as uuidV5 } from 'uuid'

/** Identifies a request that is sent again with the same Idempotency-Key. */
export interface Retry {
  /** Of the ids of its events. */
  readonly namespace: string
  /** Of its body. */
  readonly digest: string
}

/**
 * A random id that begins with the time (UUID version 7). Ids that grow are near each other in the index of the log: to
 * write 32 numbers of one sequence with other random ids changes 32 pages of it.
 */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/**
 * The id of the i-th event that one step of a request appends to a stream. With an Idempotency-Key the id derives
 * from the key, so that the same step of a retried request is the same event.
 */
export function eventId(retry: Retry | undefined, stream: string, step: string, i: number): string {
  return retry === undefined ? newId() : uuidV5(`${stream}#${step}#${i}`, retry.namespace)
}
