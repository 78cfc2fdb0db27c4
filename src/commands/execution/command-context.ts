/** The context of a command: actor, time, ids and idempotency key of its request. */
import { v5 as uuidV5 } from 'uuid'
import type { AccountRef } from '../../events/catalog/parts.ts'
import { type Credential, LOG_START, type Position } from '../../events/store/event-store.ts'
import type { Retry } from './event-ids.ts'

/** The facts of a request that its commands need. One per request. */
export interface CommandContext {
  readonly actor: AccountRef | null
  /** The site admin that acts in the actor's name. */
  readonly sudo?: AccountRef
  /** The credential of the request; absent for work of the server. */
  readonly credential?: Credential
  /** The time of the request, ISO 8601 in UTC: deciders have no clock. */
  readonly at: string
  readonly correlationId: string
  readonly causationId: string
  /** From `Idempotency-Key`. */
  readonly retry?: Retry
  /** Position of the last event that the request appended; reads of the same request wait for it. */
  written: Position
  /**
   * The claims that the request has taken and that no event relies on yet, by holder and key. Each function returns whether
   * the time limit for that event has passed. `claims.ts` fills it.
   */
  claims?: Map<string, Map<string, () => boolean>>
  /** The time at which an earlier attempt carried out the last command; absent when this attempt carried it out. */
  earlierAt?: string
}

/** Returns the time at which the last command was carried out, perhaps by an earlier attempt. */
export const executedAt = ({ at, earlierAt }: CommandContext): string => earlierAt ?? at

/** Creates a context that starts now. `causationId`: the request or event that causes the commands. */
export function newContext(
  actor: AccountRef | null,
  correlationId: string,
  causationId = correlationId,
): CommandContext {
  return { actor, at: new Date().toISOString(), correlationId, causationId, written: LOG_START }
}

/** Returns the context of a part of a request. Its event ids differ from those of other parts; a retry makes the same ones. */
export function partOf(context: CommandContext, part: string): CommandContext {
  const { retry } = context
  if (retry === undefined) return context
  return { ...context, retry: { ...retry, namespace: uuidV5(part, retry.namespace) } }
}
