/**
 * Pending and finished deliveries of webhooks. They name the event without its payload, which is created from the log
 * when it is sent and so lacks erased texts. Deliveries are work of this installation, so they are kept beside the read
 * models.
 */

import type { HookEvent } from '../../../events/catalog/webhooks.ts'
import type { Position } from '../../../events/store/event-store.ts'
import {
  type Change,
  type Collection,
  type FindOptions,
  type FoundPage,
  foundPage,
  type ReadStore,
} from '../../store/read-store.ts'

export interface WebhookDelivery {
  /** A UUID derived from the event, so that receivers can deduplicate. */
  id: string
  hookId: number
  /** Account whose scheduling share the work uses: the owner of the repository or hook. */
  ownerId: number
  /** The event, by id and position. `part` numbers the deliveries of one event. */
  eventId: string
  position: Position
  part: number
  event: HookEvent
  /** Later deliveries of the same event: each becomes a separate one when the one before it is done. */
  rest?: readonly LaterParts[]
  /** Time of the event, or when it was first seen here, in milliseconds since 1970. */
  at: number
  state: 'waiting' | 'delivered' | 'failed'
  attempts: number
  /** Earliest time of the next attempt, in milliseconds since 1970. */
  notBefore: number
  /** Last attempt: its end in milliseconds since 1970, duration, status and problem. */
  triedAt: number | null
  durationMs: number
  statusCode: number
  problem: string
}

/** `part` numbers, in ascending order. */
export interface LaterParts {
  event: HookEvent
  parts: readonly number[]
}

const collection: Collection<WebhookDelivery> = {
  name: 'webhook_deliveries',
  indexes: [
    { hookId: 1, state: 1, position: 1, part: 1 },
    { state: 1, hookId: 1, position: 1, part: 1 },
    { hookId: 1, position: -1, part: -1 },
  ],
  arrays: [],
}

/** They are not folded from the log, so they have no real position. */
const NO_POSITION = 0
/** Number of finished deliveries that are kept per webhook. */
export const KEPT_DELIVERIES = 50
const BATCH = 500

export type WebhookDeliveries = ReturnType<typeof createWebhookDeliveries>

/** Opens the deliveries of a store. Call `prepare` first. */
export function createWebhookDeliveries(store: ReadStore) {
  const putting = (body: WebhookDelivery): Change => {
    return { op: 'put', collection, id: body.id, position: NO_POSITION, body }
  }
  const deletion = ({ id }: WebhookDelivery): Change => ({ op: 'delete', collection, id })

  return {
    prepare: () => store.prepare([collection]),

    /**
     * Adds new deliveries; a crash may repeat an event. Resolves to the added ones. `requireLease` is called between
     * the look-up and the write, and throws when another node may have added and sent them.
     */
    async add(wanted: readonly WebhookDelivery[], requireLease: () => void): Promise<WebhookDelivery[]> {
      const added: WebhookDelivery[] = []
      for (let i = 0; i < wanted.length; i += BATCH) {
        const part = wanted.slice(i, i + BATCH)
        const there = await store.getMany(
          collection,
          part.map(({ id }) => id),
        )
        const known = new Set(there.map(({ id }) => id))
        const missing = part.filter(({ id }) => !known.has(id))
        requireLease()
        if (missing.length > 0) await store.apply(missing.map(putting), new Map())
        added.push(...missing)
      }
      return added
    },

    /** Stores deliveries in one write: atomic in the embedded store, in order in MongoDB. */
    put: (...deliveries: readonly WebhookDelivery[]): Promise<void> =>
      store.apply(deliveries.map(putting), new Map()),

    /** Returns the delivery that a webhook sends next. */
    async next(hookId: number): Promise<WebhookDelivery | undefined> {
      const sort = [
        ['position', 1],
        ['part', 1],
      ] as const
      const [first] = await store.find(collection, { hookId, state: 'waiting' }, { sort, limit: 1 })
      return first
    },

    waiting: (hookId: number): Promise<number> => store.count(collection, { hookId, state: 'waiting' }),

    /** Returns the next delivery of each webhook that has one. */
    async heads(): Promise<WebhookDelivery[]> {
      const found: WebhookDelivery[] = []
      const sort = [
        ['hookId', 1],
        ['position', 1],
        ['part', 1],
      ] as const
      for (let last = 0; ; ) {
        const filter = { state: 'waiting', hookId: { $gt: last } } as const
        const [head] = await store.find(collection, filter, { sort, limit: 1 })
        if (head === undefined) return found
        found.push(head)
        last = head.hookId
      }
    },

    /** Removes the oldest finished deliveries of a webhook, beyond `KEPT_DELIVERIES`. */
    async prune(hookId: number): Promise<void> {
      const sort = [
        ['position', -1],
        ['part', -1],
      ] as const
      for (const state of ['delivered', 'failed'] as const) {
        const page = { sort, skip: KEPT_DELIVERIES, limit: BATCH }
        const old = await store.find(collection, { hookId, state }, page)
        if (old.length > 0) await store.apply(old.map(deletion), new Map())
      }
    },

    /** Removes all deliveries of a webhook. */
    async removeAll(hookId: number): Promise<void> {
      for (;;) {
        const some = await store.find(collection, { hookId }, { limit: BATCH })
        if (some.length === 0) return
        await store.apply(some.map(deletion), new Map())
      }
    },

    /** Returns deliveries of a webhook, the newest first. */
    page: async (
      hookId: number,
      options: Pick<FindOptions<WebhookDelivery>, 'skip' | 'limit'>,
    ): Promise<FoundPage<WebhookDelivery>> => {
      const sort = [
        ['position', -1],
        ['part', -1],
      ] as const
      return foundPage(await store.page(collection, { hookId }, { ...options, sort }))
    },
  }
}
