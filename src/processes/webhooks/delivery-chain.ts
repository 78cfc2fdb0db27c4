/**
 * The deliveries of one event to one webhook: a push of many refs has hundreds. Only the first is stored, with the
 * places of the rest in the event; each finished delivery creates the next one. So the number of stored deliveries
 * stays one per webhook. An event has at most 200 refs (`refs-updated.ts`). Pure.
 */
import { v5 as uuidV5 } from 'uuid'
import type { HookEvent } from '../../events/catalog/webhooks.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type {
  LaterParts,
  WebhookDelivery,
} from '../../projections/models/webhooks/webhook-deliveries.fold.ts'

/** Namespace of delivery ids. */
const DELIVERIES = '8c0f4c3e-52a5-4d0e-9d5c-1c1c9b1f7f52'

/** A place in an event and the kind of its delivery. */
export interface DeliveryPart {
  part: number
  event: HookEvent
}

/**
 * Returns the first delivery of an event to a webhook, which holds the rest. `chain` has all of them in order, at least
 * one.
 */
export function deliveriesOf(
  { id: eventId, position }: Recorded<DomainEvent>,
  of: Pick<WebhookDelivery, 'hookId' | 'ownerId' | 'at'>,
  chain: readonly DeliveryPart[],
): WebhookDelivery {
  const kinds = new Set(chain.map(({ event }) => event))
  const all = [...kinds].map((event) => ({
    event,
    parts: chain.filter((one) => one.event === event).map(({ part }) => part),
  }))
  const first = firstOf({ ...of, eventId, position }, all)
  if (first === undefined) throw new Error('an event without parts has no delivery')
  return first
}

/** Returns the next delivery of the same event; undefined after the last. */
export function deliveryAfter(done: WebhookDelivery): WebhookDelivery | undefined {
  const { hookId, ownerId, eventId, position, at, rest = [] } = done
  return firstOf({ hookId, ownerId, eventId, position, at }, rest)
}

/** Returns a delivery without the rest of its chain. */
export function withoutRest({ rest: _, ...delivery }: WebhookDelivery): WebhookDelivery {
  return delivery
}

function firstOf(
  of: Pick<WebhookDelivery, 'hookId' | 'ownerId' | 'eventId' | 'position' | 'at'>,
  left: readonly LaterParts[],
): WebhookDelivery | undefined {
  const heads = left.flatMap(({ event, parts }) => parts.slice(0, 1).map((part) => ({ event, part })))
  const [first] = heads.sort((one, other) => one.part - other.part)
  if (first === undefined) return undefined
  const rest = left
    .map(({ event, parts }) => ({ event, parts: event === first.event ? parts.slice(1) : parts }))
    .filter(({ parts }) => parts.length > 0)
  return {
    // Derived, so that reading the event again gives the same id.
    id: uuidV5(`${of.eventId} ${first.part} ${of.hookId}`, DELIVERIES),
    ...of,
    ...first,
    ...(rest.length > 0 && { rest }),
    state: 'waiting',
    attempts: 0,
    notBefore: 0,
    triedAt: null,
    durationMs: 0,
    statusCode: 0,
    problem: '',
  }
}
