/**
 * The newest events of the log, for all clients that follow it live. They share one subscription to the log and one
 * memory. No subscriber has a queue of its own: one that is too slow for the memory reads the stores again.
 */
import { setMaxListeners } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import { decode, UnreadableEvent } from '../events/codec.ts'
import type { DomainEvent } from '../events/domain-events.ts'
import {
  type EventStore,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../events/event-store.ts'
import { isInHistory, repositoryOf } from './history.ts'
import { type Client, createPlaces, type PlaceLimits } from './live-places.ts'
import type { Projector } from './projector.ts'

export interface LiveEvent {
  event: RecordedEvent
  repoId: number
  /** The event on the wire: made once for all subscribers. */
  json: string
}

/** What a subscriber waits for: events of the whole server, of a repository, or of one stream. */
export type Topic = 'server' | `repository ${number}` | `stream ${string}`

export interface Subscriber {
  /** How far the log has been delivered. The read models hold everything up to here. */
  position(): Position
  /** What came after the position, oldest first; undefined when the memory does not reach back to it. */
  since(position: Position): readonly LiveEvent[] | undefined
  /**
   * Waits for an event of the topic, for an event that may change rights, or for 15 s. To be called in the turn in
   * which `since` had nothing. Resolves to a position after which nothing of the topic is missed; to undefined when it
   * is over, because the signal says so or the server stops.
   * @throws StoreUnavailable when the log is lost
   */
  next(topic: Topic, signal: AbortSignal): Promise<Position | undefined>
  leave(): void
}

export interface LiveEvents {
  /**
   * `client`: who takes the place; each has a limit, so that none takes all of them.
   * @throws Refused when the client has all of its places (tooManyRequests), or no place is left (unavailable)
   * @throws StoreUnavailable when the log does not answer, or the read models are far behind it
   */
  subscribe(client: Client): Promise<Subscriber>
  /** Aborts when the server stops. */
  readonly ending: AbortSignal
  end(): void
}

export interface LiveLimits extends PlaceLimits {
  /** Events that are remembered. */
  events: number
  /** Characters of their JSON. */
  characters: number
  /** The timeout of `next`, in milliseconds. */
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

/** After these somebody may see less than before. */
const CHANGES_RIGHTS: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'TokenDeleted',
  'MemberSet',
  'MemberRemoved',
  'RepositoryEdited',
  'RepositoryDeleted',
  'CollaboratorSet',
  'CollaboratorRemoved',
])

/** How far the read models may be behind the log when a client subscribes, in milliseconds. */
const BEHIND_MS = 5000

/** The subscription to the log, and what it has delivered. It lasts as long as it has subscribers. */
interface Subscription {
  position: Position
  /** After this position nothing is missing in `recent`. */
  from: Position
  recent: LiveEvent[]
  characters: number
  waiting: Map<Topic, Set<(position: Position) => void>>
  subscribers: number
  /** Why it ended, when nobody ended it. */
  failure: unknown
  abort: AbortController
}

export interface LiveEventsOptions {
  events: Pick<EventStore, 'lastPosition' | 'subscribe'>
  projector: Pick<Projector, 'waitFor'>
  log: Pick<FastifyBaseLogger, 'warn'>
  /** An event on the wire. */
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
  // One for each open connection.
  setMaxListeners(0, ending.signal)
  const places = createPlaces(limits)
  let current: Promise<Subscription> | undefined
  let underWay: Subscription | undefined

  async function start(): Promise<Subscription> {
    const position = await events.lastPosition()
    if (!(await projector.waitFor(position, BEHIND_MS))) {
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
      log.warn({ err: error }, 'live events lost the log')
      subscription.failure = error
      stop(subscription)
    })
    underWay = subscription
    return subscription
  }

  async function follow(subscription: Subscription): Promise<void> {
    const { signal } = subscription.abort
    for await (const batch of events.subscribe({ after: subscription.position, signal })) {
      const last = batch.at(-1)
      // A subscriber may query what an event led to, and its rights are those that the event left.
      while (last !== undefined && !signal.aborted && !(await projector.waitFor(last.position, 1000)));
      if (signal.aborted) return
      deliver(subscription, batch)
    }
  }

  function deliver(subscription: Subscription, batch: readonly RecordedEvent[]): void {
    const before = subscription.position
    const topics = new Set<Topic>(['server'])
    let rights = false
    for (const recorded of batch) {
      const live = liveEvent(recorded, toJson)
      subscription.position = recorded.position
      if (live === undefined) continue
      subscription.recent.push(live)
      subscription.characters += live.json.length
      topics.add(`stream ${recorded.stream}`).add(`repository ${live.repoId}`)
      rights ||= CHANGES_RIGHTS.has(recorded.type)
    }
    forget(subscription)
    for (const topic of rights ? [...subscription.waiting.keys()] : topics) wake(subscription, topic, before)
  }

  function forget(subscription: Subscription): void {
    const { recent } = subscription
    let gone = 0
    while (recent.length - gone > limits.events || subscription.characters > limits.characters) {
      const oldest = recent[gone]
      if (oldest === undefined) break
      subscription.characters -= oldest.json.length
      subscription.from = oldest.event.position
      gone += 1
    }
    if (gone > 0) recent.splice(0, gone)
  }

  function wake({ waiting }: Subscription, topic: Topic, position: Position): void {
    for (const resolve of [...(waiting.get(topic) ?? [])]) resolve(position)
  }

  function stop(subscription: Subscription): void {
    if (underWay === subscription) {
      underWay = undefined
      current = undefined
    }
    subscription.abort.abort()
    for (const topic of [...subscription.waiting.keys()]) wake(subscription, topic, subscription.position)
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
    let here = true
    subscription.subscribers += 1
    return {
      position: () => subscription.position,
      since(position) {
        if (position < subscription.from) return undefined
        return subscription.recent.slice(firstAfter(subscription.recent, position))
      },
      async next(topic, signal) {
        const over = () => signal.aborted || subscription.abort.signal.aborted
        const position = over() ? undefined : await wait(subscription, topic, signal)
        if (subscription.failure !== undefined) throw subscription.failure
        return over() ? undefined : position
      },
      leave() {
        if (!here) return
        here = false
        places.free(client)
        subscription.subscribers -= 1
        if (subscription.subscribers === 0) stop(subscription)
      },
    }
  }

  return {
    ending: ending.signal,
    async subscribe(client) {
      if (ending.signal.aborted) throw new StoreUnavailable('the server stops')
      places.take(client)
      current ??= start()
      const starting = current
      try {
        return subscriber(await starting, client)
      } catch (error) {
        if (current === starting) current = undefined
        places.free(client)
        throw error
      }
    },
    end() {
      ending.abort()
      if (underWay !== undefined) stop(underWay)
    },
  }
}

function liveEvent(recorded: RecordedEvent, toJson: (event: RecordedEvent) => string): LiveEvent | undefined {
  try {
    const event = decode(recorded)
    return isInHistory(event) ? { event, repoId: repositoryOf(event), json: toJson(event) } : undefined
  } catch (error) {
    // The read models stop at it, and /healthz says so.
    if (error instanceof UnreadableEvent) return undefined
    throw error
  }
}

/** Where in the list the events after a position begin. */
function firstAfter(recent: readonly LiveEvent[], position: Position): number {
  let low = 0
  let high = recent.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((recent[middle]?.event.position ?? Number.POSITIVE_INFINITY) > position) high = middle
    else low = middle + 1
  }
  return low
}
