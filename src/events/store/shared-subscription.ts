/**
 * One subscription for all subscribers of this process that are near the end of the log: the server sends each new event
 * once, and it is decoded once. A subscriber that is further behind has its own subscription until it is near.
 */
import {
  type EventStore,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from './event-store.ts'

/** Maximum number of events kept for slower subscribers. */
const MOST = 1000

type Subscribe = EventStore['subscribe']

/** The subscription that is shared, and its newest events. */
interface Feed {
  /** All events after this position are in the feed, or will be. */
  start: Position
  events: RecordedEvent[]
  /** Position up to which all events have arrived. */
  passed: Position
  /** Reason of its end; undefined while it runs. */
  ended: unknown
  followers: number
  /** Called at each change. */
  wake: Set<() => void>
  stop(): void
}

/** `alone` creates a separate subscription. `lastPosition` is the port's. */
export function shareSubscription({
  alone,
  lastPosition,
}: {
  alone: Subscribe
  lastPosition: EventStore['lastPosition']
}): Subscribe {
  let current: Feed | undefined

  function openFeed(start: Position): Feed {
    const stopping = new AbortController()
    const { signal } = stopping
    const feed: Feed = {
      start,
      events: [],
      passed: start,
      ended: undefined,
      followers: 0,
      wake: new Set(),
      stop: () => stopping.abort(),
    }
    fill(feed, signal).then(
      () => end(feed, new StoreUnavailable('the subscription has ended')),
      (error: unknown) => end(feed, error),
    )
    return feed
  }

  /** Buffers events as they arrive. Never waits for subscribers: a slow one gets its own subscription. */
  async function fill(feed: Feed, signal: AbortSignal): Promise<void> {
    const passed = (position: Position) => {
      feed.passed = position
      wakeAll(feed)
    }
    for await (const batch of alone({ after: feed.start, signal, passed })) {
      feed.events.push(...batch)
      const dropped = feed.events.length > MOST ? feed.events.splice(0, feed.events.length - MOST / 2) : []
      feed.start = dropped.at(-1)?.position ?? feed.start
      wakeAll(feed)
    }
  }

  function end(feed: Feed, reason: unknown): void {
    feed.ended = reason
    if (current === feed) current = undefined
    wakeAll(feed)
  }

  /** Follows the feed after a position, until it has dropped events that come next. */
  async function* follow(
    feed: Feed,
    from: Position,
    { signal, batchSize = MOST, unwanted }: SubscribeOptions,
    report: (position: Position) => void,
  ): AsyncGenerator<RecordedEvent[], void> {
    let after = from
    /** Undefined while this subscriber is reading: then it sees new events without a wake-up. */
    let wake: ((batch: RecordedEvent[]) => void) | undefined
    /** Returns the next wanted events, if any, and skips the others. */
    function next(): RecordedEvent[] {
      while (after >= feed.start) {
        const first = feed.events.findLastIndex(({ position }) => position <= after) + 1
        const batch = feed.events.slice(first, first + batchSize)
        const last = batch.at(-1)
        if (last === undefined) break
        after = last.position
        const wanted = batch.filter(({ type }) => !unwanted?.has(type))
        if (wanted.length > 0) return wanted
        report(after)
      }
      return []
    }
    const isOver = () => signal.aborted || after < feed.start || feed.ended !== undefined
    // Wakes a subscriber only for wanted events: most want few types.
    function changed(): void {
      if (wake === undefined) return
      const batch = signal.aborted ? [] : next()
      if (batch.length === 0 && !isOver()) {
        report(feed.passed)
        return
      }
      // The callback may have ended it meanwhile.
      const waking: typeof wake = wake
      wake = undefined
      waking?.(batch)
    }
    feed.followers += 1
    feed.wake.add(changed)
    signal.addEventListener('abort', changed)
    try {
      let batch = next()
      while (!signal.aborted) {
        if (batch.length > 0) {
          yield batch
          report(after)
          batch = signal.aborted ? [] : next()
          continue
        }
        if (after < feed.start) return
        report(feed.passed)
        if (feed.ended !== undefined) throw feed.ended
        // The callback may have ended it.
        if (signal.aborted) return
        batch = await new Promise<RecordedEvent[]>((resolve) => {
          wake = resolve
        })
      }
    } finally {
      feed.wake.delete(changed)
      signal.removeEventListener('abort', changed)
      feed.followers -= 1
      if (feed.followers === 0) {
        feed.stop()
        if (current === feed) current = undefined
      }
    }
  }

  return async function* (options) {
    const { signal } = options
    if (signal.aborted) return
    let passed = options.after
    function report(position: Position): void {
      if (position <= passed) return
      passed = position
      options.passed?.(position)
    }
    const endAtStart = await lastPosition()
    const isNear = () => passed >= (current === undefined ? endAtStart : current.start)
    while (!signal.aborted) {
      if (isNear()) {
        current ??= openFeed(passed)
        yield* follow(current, passed, options, report)
        continue
      }
      const near = new AbortController()
      const own = {
        ...options,
        after: passed,
        signal: AbortSignal.any([signal, near.signal]),
        passed(position: Position) {
          report(position)
          if (isNear()) near.abort()
        },
      }
      yield* alone(own)
    }
  }
}

function wakeAll({ wake }: Feed): void {
  for (const one of wake) one()
}
