/**
 * The payloads of deliveries, as of their events in the log. Webhooks share the payload of an event for a short time,
 * because creating it may replay a long history.
 */
import { LRUCache } from 'lru-cache'
import { ErrorWithRefusal } from '../../errors/refusal.ts'
import type { WebhookScope } from '../../events/catalog/webhooks.ts'
import { decode } from '../../events/codec.ts'
import type { WebhookDelivery } from '../../projections/models/webhooks/webhook-deliveries.fold.ts'
import type { Services } from '../../services/services.ts'
import { notices } from './notices.ts'

/** Cache time of payloads, in milliseconds, and their maximum number: slightly more than concurrent deliveries. */
const SHARED_MS = 5000
const MAX_SHARED = 20

const GONE = 'its subject no longer exists'

type Made = { json: string; repoId: number } | { problem: string }

/** Returns the JSON of a payload for a webhook of that scope, or a problem. @throws errors of stores and git */
export type Payloads = (
  delivery: Pick<WebhookDelivery, 'eventId' | 'position' | 'part'>,
  scope: WebhookScope,
) => Promise<{ json: string } | { problem: string }>

export function createPayloads(services: Services): Payloads {
  const { events, views } = services
  const shared = new LRUCache<string, Promise<Made>>({ max: MAX_SHARED, ttl: SHARED_MS })

  async function make({ eventId, position, part }: Parameters<Payloads>[0]): Promise<Made> {
    for await (const recorded of events.readPositions([position])) {
      if (recorded.id !== eventId) continue
      const notice = notices.of(decode(recorded))[part]
      try {
        const payload = await notice?.payload(services)
        if (notice === undefined || payload === undefined) return { problem: GONE }
        return { json: JSON.stringify(payload), repoId: notice.repoId }
      } catch (error) {
        if (error instanceof ErrorWithRefusal && error.refusal.refused === 'notFound')
          return { problem: GONE }
        throw error
      }
    }
    return { problem: 'the log does not have its event any more' }
  }

  /** Whether the owner of the webhook has given the repository away. */
  async function hasOtherOwner(scope: WebhookScope, repoId: number): Promise<boolean> {
    if (scope.kind !== 'owner') return false
    const repository = await views.repositories.get(`${repoId}`)
    return repository !== undefined && repository.ownerId !== scope.ownerId
  }

  return async (delivery, scope) => {
    // A payload from before an erasure has texts that must not be sent.
    const key = `${delivery.eventId} ${delivery.part} ${events.erasures?.() ?? 0}`
    const known = shared.get(key)
    const making = known ?? make(delivery)
    if (known === undefined) shared.set(key, making)
    try {
      const made = await making
      if ('problem' in made) return made
      if (await hasOtherOwner(scope, made.repoId)) return { problem: 'the repository has another owner now' }
      return { json: made.json }
    } catch (error) {
      if (shared.peek(key) === making) shared.delete(key)
      throw error
    }
  }
}
