/**
 * The newest events of the log, for all who follow it live: one subscription and one memory, however many they
 * are. Nobody has a queue of their own: who is slower than the memory is long reads the stores again.
 */
import { setMaxListeners } from 'node:events'
import { decode, UnreadableEvent } from '../events/codec.ts'
import type { DomainEvent } from '../events/domain-events.ts'
import { type Position, type RecordedEvent, StoreUnavailable } from '../events/event-store.ts'
import { isTold, repositoryOf } from '../projections/history.ts'
import type { Projector } from '../projections/projector.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import { historyJson } from '../wire/history.ts'

export interface LiveEvent {
  event: RecordedEvent
  repoId: number
  /** The event on the wire. */
  json: string
}

/** What somebody listens to: all of the server, a repository, or one stream. */
export type Topic = 'server' | `repository ${number}` | `stream ${string}`

/** Somebody who is signed in, or an address that others come from. */
export type Client = `account ${number}` | `address ${string}`

export interface Listener {
  /** How far the log had come when it was looked at last. All that is before it is in the read models. */
  position(): Position
  /** What came after the position, oldest first; undefined when that is longer ago than is remembered. */
  since(position: Position): readonly LiveEvent[] | undefined
  /**
   * Waits until something of the topic comes, or something that may change rights, or nothing for 15 s. To be
   * called in the turn in which `since` had nothing. Resolves to a position after which nothing of the topic is
   * missed; undefined: it is over, as the signal says or because the server stops.
   * @throws StoreUnavailable when the log is lost
   */
  next(topic: Topic, signal: AbortSignal): Promise<Position | undefined>
  leave(): void
}

export interface LiveEvents {
  /**
   * `client`: whose place it is, so that nobody has all of them.
   * @throws Refused when the client has as many as may (tooManyRequests), or all together do (unavailable)
   * @throws StoreUnavailable when the log does not answer, or the read models are far behind it
   */
  join(client: Client): Promise<Listener>
  /** Aborts when the server stops. */
  readonly ending: AbortSignal
  end(): void
}

export interface LiveLimits {
  /** Places of all clients together: a connection each, and as many questions about rights when these change. */
  listeners: number
  /** Places of one account: a person has pages open, a program a stream for each repository that it follows. */
  perAccount: number
  /** Places of one address for those who have not signed in: an office may share one. */
  perAddress: number
  /** Events that are remembered. */
  events: number
  /** Characters of their JSON. */
  characters: number
  /** How long a listener may hear nothing, in milliseconds. */
  silenceMs: number
}

export const LIVE_LIMITS: LiveLimits = {
  listeners: 1000,
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

/** How long the read models may be behind a log that somebody wants to listen to, in milliseconds. */
const BEHIND_MS = 5000

/** What has been heard of the log since the first of those who listen now joined. */
interface Hearing {
  position: Position
  /** After this position nothing is missing in `recent`. */
  from: Position
  recent: LiveEvent[]
  characters: number
  waiting: Map<Topic, Set<(position: Position) => void>>
  listeners: number
  /** Why it ended, when nobody ended it. */
  failure: unknown
  abort: AbortController
}

export function createLiveEvents(
  { events, projector, log }: Pick<Services, 'events' | 'log'> & { projector: Pick<Projector, 'waitFor'> },
  limits: LiveLimits = LIVE_LIMITS,
): LiveEvents {
  const ending = new AbortController()
  // One for each that is open.
  setMaxListeners(0, ending.signal)
  let listeners = 0
  /** Places that are taken; who has none is not in it. */
  const places = new Map<Client, number>()
  let current: Promise<Hearing> | undefined
  let underWay: Hearing | undefined

  async function start(): Promise<Hearing> {
    const position = await events.lastPosition()
    if (!(await projector.waitFor(position, BEHIND_MS))) {
      throw new StoreUnavailable('the read models are behind the log')
    }
    const hearing: Hearing = {
      position,
      from: position,
      recent: [],
      characters: 0,
      waiting: new Map(),
      listeners: 0,
      failure: undefined,
      abort: new AbortController(),
    }
    follow(hearing).catch((error: unknown) => {
      log.warn({ err: error }, 'live events lost the log')
      hearing.failure = error
      stop(hearing)
    })
    underWay = hearing
    return hearing
  }

  async function follow(hearing: Hearing): Promise<void> {
    const { signal } = hearing.abort
    for await (const batch of events.subscribe({ after: hearing.position, signal })) {
      const last = batch.at(-1)
      // Who hears of an event may ask for what came of it, and rights are those that it left.
      while (last !== undefined && !signal.aborted && !(await projector.waitFor(last.position, 1000)));
      if (signal.aborted) return
      hear(hearing, batch)
    }
  }

  function hear(hearing: Hearing, batch: readonly RecordedEvent[]): void {
    const before = hearing.position
    const topics = new Set<Topic>(['server'])
    let rights = false
    for (const recorded of batch) {
      const live = liveEvent(recorded)
      hearing.position = recorded.position
      if (live === undefined) continue
      hearing.recent.push(live)
      hearing.characters += live.json.length
      topics.add(`stream ${recorded.stream}`).add(`repository ${live.repoId}`)
      rights ||= CHANGES_RIGHTS.has(recorded.type)
    }
    forget(hearing)
    for (const topic of rights ? [...hearing.waiting.keys()] : topics) wake(hearing, topic, before)
  }

  function forget(hearing: Hearing): void {
    const { recent } = hearing
    let gone = 0
    while (recent.length - gone > limits.events || hearing.characters > limits.characters) {
      const oldest = recent[gone]
      if (oldest === undefined) break
      hearing.characters -= oldest.json.length
      hearing.from = oldest.event.position
      gone += 1
    }
    if (gone > 0) recent.splice(0, gone)
  }

  function wake({ waiting }: Hearing, topic: Topic, position: Position): void {
    for (const resolve of [...(waiting.get(topic) ?? [])]) resolve(position)
  }

  function stop(hearing: Hearing): void {
    if (underWay === hearing) {
      underWay = undefined
      current = undefined
    }
    hearing.abort.abort()
    for (const topic of [...hearing.waiting.keys()]) wake(hearing, topic, hearing.position)
  }

  function wait(hearing: Hearing, topic: Topic, signal: AbortSignal): Promise<Position> {
    const { waiting } = hearing
    return new Promise((resolve) => {
      const those = waiting.get(topic) ?? new Set()
      waiting.set(topic, those)
      const done = (position: Position) => {
        clearTimeout(timer)
        signal.removeEventListener('abort', now)
        those.delete(done)
        if (those.size === 0) waiting.delete(topic)
        resolve(position)
      }
      const now = () => done(hearing.position)
      const timer = setTimeout(now, limits.silenceMs).unref()
      signal.addEventListener('abort', now)
      those.add(done)
    })
  }

  function takePlace(client: Client): void {
    const taken = places.get(client) ?? 0
    if (taken >= (client.startsWith('account') ? limits.perAccount : limits.perAddress)) {
      throw new Refused(refuse.tooManyRequests(`you follow ${taken} live histories already; close one`))
    }
    if (listeners >= limits.listeners) {
      throw new Refused(refuse.unavailable('too many follow live events already; try again'))
    }
    places.set(client, taken + 1)
    listeners += 1
  }

  function freePlace(client: Client): void {
    const taken = places.get(client) ?? 0
    if (taken > 1) places.set(client, taken - 1)
    else places.delete(client)
    listeners -= 1
  }

  function listener(hearing: Hearing, client: Client): Listener {
    let here = true
    hearing.listeners += 1
    return {
      position: () => hearing.position,
      since(position) {
        if (position < hearing.from) return undefined
        return hearing.recent.slice(firstAfter(hearing.recent, position))
      },
      async next(topic, signal) {
        const over = () => signal.aborted || hearing.abort.signal.aborted
        const position = over() ? undefined : await wait(hearing, topic, signal)
        if (hearing.failure !== undefined) throw hearing.failure
        return over() ? undefined : position
      },
      leave() {
        if (!here) return
        here = false
        freePlace(client)
        hearing.listeners -= 1
        if (hearing.listeners === 0) stop(hearing)
      },
    }
  }

  return {
    ending: ending.signal,
    async join(client) {
      if (ending.signal.aborted) throw new StoreUnavailable('the server stops')
      takePlace(client)
      current ??= start()
      const starting = current
      try {
        return listener(await starting, client)
      } catch (error) {
        if (current === starting) current = undefined
        freePlace(client)
        throw error
      }
    },
    end() {
      ending.abort()
      if (underWay !== undefined) stop(underWay)
    },
  }
}

function liveEvent(recorded: RecordedEvent): LiveEvent | undefined {
  try {
    const event = decode(recorded)
    return isTold(event) ? { event, repoId: repositoryOf(event), json: historyJson(event) } : undefined
  } catch (error) {
    // The read models stop at it, and the server's health tells.
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
