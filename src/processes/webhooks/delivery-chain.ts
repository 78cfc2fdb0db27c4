/**
 * The deliveries of one event to one webhook: a push of many refs has hundreds. The first one is noted with the places of
 * the others in the event, and each that is done makes the next one. So many webhooks and many refs are not multiplied. An event
 * has at most 200 refs (`refs-updated.ts`), so a delivery of a push is no more work when the push has more of them.
 * Pure.
 */
import { v5 as uuidV5 } from 'uuid'
import type { HookEvent } from '../../events/catalog/webhooks.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import type {
  LaterParts,
  WebhookDelivery,
} from '../../projections/models/webhooks/webhook-deliveries.fold.ts'

/** The namespace of the ids of deliveries. */
const DELIVERIES = '8c0f4c3e-52a5-4d0e-9d5c-1c1c9b1f7f52'

/** What a webhook is told of an event: a place in it, and the kind of that delivery. */
export interface DeliveryPart {
  part: number
  event: HookEvent
}

/** The first delivery of an event to a webhook, with those that follow. `told`: all of them, at least one, in their order. */
export function deliveriesOf(
  { id: eventId, position }: Recorded<DomainEvent>,
  of: Pick<WebhookDelivery, 'hookId' | 'ownerId' | 'at'>,
  told: readonly DeliveryPart[],
): WebhookDelivery {
  const kinds = new Set(told.map(({ event }) => event))
  const all = [...kinds].map((event) => ({
    event,
    parts: told.filter((one) => one.event === event).map(({ part }) => part),
  }))
  const first = firstOf({ ...of, eventId, position }, all)
  if (first === undefined) throw new Error('a webhook that is told of nothing has no delivery')
  return first
}

/** The delivery of the same event that comes after one that is done; undefined when there is none. */
export function deliveryAfter(done: WebhookDelivery): WebhookDelivery | undefined {
  const { hookId, ownerId, eventId, position, at, rest = [] } = done
  return firstOf({ hookId, ownerId, eventId, position, at }, rest)
}

/** A delivery without those that follow it. */
export function alone({ rest: _, ...delivery }: WebhookDelivery): WebhookDelivery {
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
    // The same whenever the event is looked at again.
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
