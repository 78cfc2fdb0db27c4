/**
 * The newest events of the log, for all clients that follow it live. They share one subscription to the log and one
 * buffer of recent events. A subscriber that is too slow for the buffer reads the log.
 */
import { setMaxListeners } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import { decode, UnreadableEvent } from '../../events/codec.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import {
  type EventStore,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../../events/store/event-store.ts'
import { isInHistory, repositoryOf } from '../models/history/history.fold.ts'
import type { Projector } from '../projector/projector.ts'
import { type Client, createSubscriberSlots, type SubscriberLimits } from './subscriber-slots.ts'

export interface LiveEvent {
  event: RecordedEvent
  repoId: number
  /** The event as JSON, serialized once for all subscribers. */
  json: string
}

/** The events that a subscriber waits for: those of the whole server, of a repository, or of one stream. */
export type Topic = 'server' | `repository ${number}` | `stream ${string}`

export interface Subscriber {
  /** The position of the last delivered event. The read models hold everything up to it. */
  position(): Position
  /** Returns the events after the position, oldest first; undefined when the buffer begins later. */
  since(position: Position): readonly LiveEvent[] | undefined
  /**
   * Waits for an event of the topic, for an event that may change permissions, or for `silenceMs`. Call it in the same
   * iteration of the event loop in which `since` returned no events. Resolves to a position before all undelivered
   * events of the topic, or to undefined when the signal aborts or the server stops.
   * @throws StoreUnavailable when the connection to the log is lost
   */
  next(topic: Topic, signal: AbortSignal): Promise<Position | undefined>
  leave(): void
}

export interface LiveEvents {
  /**
   * Takes a slot for the client and subscribes it.
   * @throws Refused when the client has used its slots (tooManyRequests) or all slots are taken (unavailable)
   * @throws StoreUnavailable when the log does not answer, or the read models are far behind it
   */
  subscribe(client: Client): Promise<Subscriber>
  /** Aborts when the server stops. */
  readonly ending: AbortSignal
  end(): void
}

export interface LiveLimits extends SubscriberLimits {
  /** Maximum number of events in the buffer. */
  events: number
  /** Maximum size of the buffer, in characters of JSON. */
  characters: number
  /** Time that `next` waits for an event, in milliseconds. */
  silenceMs: number
}

export const LIVE_LIMITS: LiveLimits = {
  subscribers: 1000,
  perAccount: 50,
  perAddress: 20,
  events: 2000,
  characters: 8 * 1024 * 1024,
  silenceMs: 15_000,
}

/** Event types after which a client may see less than before. */
const MAY_REDUCE_ACCESS: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'TokenDeleted',
  'UserEdited',
  'PasswordChanged',
  'UserDeleted',
  'OrganizationEdited',
  'MembersReleased',
  'OrganizationDeleted',
  'MemberSet',
  'MemberRemoved',
  'RepositoryEdited',
  'RepositoryDeleted',
  'OwnerVisibilityChanged',
  'TransferCanceled',
  'RepositoryTransferred',
  'CollaboratorSet',
  'CollaboratorRemoved',
  'TeamEdited',
  'TeamDeleted',
  'TeamMemberRemoved',
  'TeamRepositoryRemoved',
])

/** Time that a new subscription waits for the read models to catch up with the log, in milliseconds. */
const CATCH_UP_MS = 5000

/** The subscription to the log, with its buffer. It ends with its last subscriber. */
interface Subscription {
  position: Position
  /** `recent` holds all events after this position. */
  from: Position
  recent: LiveEvent[]
  characters: number
  waiting: Map<Topic, Set<(position: Position) => void>>
  subscribers: number
  /** The error that ended the subscription, if any. */
  failure: unknown
  abort: AbortController
}

export interface LiveEventsOptions {
  events: Pick<EventStore, 'lastPosition' | 'subscribe'>
  projector: Pick<Projector, 'waitFor'>
  log: Pick<FastifyBaseLogger, 'warn'>
  toJson: (event: RecordedEvent) => string
  limits?: LiveLimits
}

export function createLiveEvents({
  events,
  projector,
  log,
  toJson,
  limits = LIVE_LIMITS,
}: LiveEventsOptions): LiveEvents {
  const ending = new AbortController()
  // Each open connection adds a listener. Without this, Node would warn about a leak.
  setMaxListeners(0, ending.signal)
  const slots = createSubscriberSlots(limits)
  let current: Promise<Subscription> | undefined
  let running: Subscription | undefined

  async function start(): Promise<Subscription> {
    const position = await events.lastPosition()
    if (!(await projector.waitFor(position, CATCH_UP_MS))) {
      throw new StoreUnavailable('the read models are behind the log')
    }
    const subscription: Subscription = {
      position,
      from: position,
      recent: [],
      characters: 0,
      waiting: new Map(),
      subscribers: 0,
      failure: undefined,
      abort: new AbortController(),
    }
    follow(subscription).catch((error: unknown) => {
      log.warn({ err: error }, 'live events lost the connection to the log')
      subscription.failure = error
      stop(subscription)
    })
    running = subscription
    return subscription
  }

  async function follow(subscription: Subscription): Promise<void> {
    const { signal } = subscription.abort
    for await (const batch of events.subscribe({ after: subscription.position, signal })) {
      const last = batch.at(-1)
      // Wait for the read models: permissions are checked there, and a subscriber may query the results of an event.
      while (last !== undefined && !signal.aborted && !(await projector.waitFor(last.position, 1000)));
      if (signal.aborted) return
      deliver(subscription, batch)
    }
  }

  function deliver(subscription: Subscription, batch: readonly RecordedEvent[]): void {
    const before = subscription.position
    const topics = new Set<Topic>(['server'])
    let mayReduceAccess = false
    for (const recorded of batch) {
      // The buffer may hold erased texts. Subscribers that have not sent it yet read the log instead.
      if (recorded.type === 'ErasureFinished') empty(subscription, subscription.position)
      const live = liveEvent(recorded, toJson)
      subscription.position = recorded.position
      if (live === undefined) continue
      subscription.recent.push(live)
      subscription.characters += live.json.length
      topics.add(`stream ${recorded.stream}`).add(`repository ${live.repoId}`)
      mayReduceAccess ||= MAY_REDUCE_ACCESS.has(recorded.type)
    }
    trim(subscription)
    wake(subscription, mayReduceAccess ? subscription.waiting.keys() : topics, before)
  }

  function empty(subscription: Subscription, from: Position): void {
    subscription.recent = []
    subscription.characters = 0
    subscription.from = from
  }

  /** Drops the oldest events until the buffer is within its limits. */
  function trim(subscription: Subscription): void {
    const { recent } = subscription
    let dropped = 0
    while (recent.length - dropped > limits.events || subscription.characters > limits.characters) {
      const oldest = recent[dropped]
      if (oldest === undefined) break
      subscription.characters -= oldest.json.length
      subscription.from = oldest.event.position
      dropped += 1
    }
    if (dropped > 0) recent.splice(0, dropped)
  }

  function wake({ waiting }: Subscription, topics: Iterable<Topic>, position: Position): void {
    for (const resolve of [...topics].flatMap((topic) => [...(waiting.get(topic) ?? [])])) resolve(position)
  }

  function stop(subscription: Subscription): void {
    if (running === subscription) {
      running = undefined
      current = undefined
    }
    subscription.abort.abort()
    wake(subscription, subscription.waiting.keys(), subscription.position)
  }

  function wait(subscription: Subscription, topic: Topic, signal: AbortSignal): Promise<Position> {
    const { waiting } = subscription
    return new Promise((resolve) => {
      const ofTopic = waiting.get(topic) ?? new Set()
      waiting.set(topic, ofTopic)
      const done = (position: Position) => {
        clearTimeout(timer)
        signal.removeEventListener('abort', now)
        ofTopic.delete(done)
        if (ofTopic.size === 0) waiting.delete(topic)
        resolve(position)
      }
      const now = () => done(subscription.position)
      const timer = setTimeout(now, limits.silenceMs).unref()
      signal.addEventListener('abort', now)
      ofTopic.add(done)
    })
  }

  function subscriber(subscription: Subscription, client: Client): Subscriber {
    let hasLeft = false
    subscription.subscribers += 1
    return {
      position: () => subscription.position,
      since(position) {
        if (position < subscription.from) return undefined
        const last = subscription.recent.findLastIndex(({ event }) => event.position <= position)
        return subscription.recent.slice(last + 1)
      },
      async next(topic, signal) {
        const isOver = () => signal.aborted || subscription.abort.signal.aborted
        const position = isOver() ? undefined : await wait(subscription, topic, signal)
        if (subscription.failure !== undefined) throw subscription.failure
        return isOver() ? undefined : position
      },
      leave() {
        if (hasLeft) return
        hasLeft = true
        slots.free(client)
        subscription.subscribers -= 1
        if (subscription.subscribers === 0) stop(subscription)
      },
    }
  }

  return {
    ending: ending.signal,
    async subscribe(client) {
      if (ending.signal.aborted) throw new StoreUnavailable('the server is stopping')
      slots.take(client)
      current ??= start()
      const starting = current
      try {
        return subscriber(await starting, client)
      } catch (error) {
        if (current === starting) current = undefined
        slots.free(client)
        throw error
      }
    },
    end() {
      ending.abort()
      if (running !== undefined) stop(running)
    },
  }
}

function liveEvent(recorded: RecordedEvent, toJson: (event: RecordedEvent) => string): LiveEvent | undefined {
  try {
    const event = decode(recorded)
    return isInHistory(event) ? { event, repoId: repositoryOf(event), json: toJson(event) } : undefined
  } catch (error) {
    // The read models stop at this event, and /healthz reports it.
    if (error instanceof UnreadableEvent) return undefined
    throw error
  }
}
