import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import t from 'tap'
import { historyJson } from '../../../src/api/history/history.ts'
import { Refused } from '../../../src/errors/refusal.ts'
import { type NewEvent, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import type { Subscriber } from '../../../src/projections/live/live-events.ts'
import { createLiveEvents, LIVE_LIMITS, type LiveLimits } from '../../../src/projections/live/live-events.ts'
import { followHistory } from '../../../src/queries/history/history-live.ts'
import { streamHistory } from '../../../src/queries/history/history-source.ts'
import { openStores, readerOf } from '../../stores.ts'

type Test = Parameters<typeof openStores>[0]

const log = pino({ level: 'silent' })
const projector = { waitFor: async () => true }
const permissions = async () => ({})
const ALICE = 'account 1'
const BOB = 'account 2'

function comment(n: number): NewEvent {
  const metadata = {
    actor: null,
    at: '2026-01-01T00:00:00.000Z',
    correlationId: 'c',
    causationId: 'c',
    schema: 1,
  }
  const data = { repoId: 1, index: 1, commentId: n, author: { id: 1, login: 'alice' }, body: `${n}` }
  return { id: randomUUID(), type: 'CommentAdded', data, metadata }
}

/** Opens a log, and helpers to subscribe to one of its streams. */
function setUp(t: Test, limits: Partial<LiveLimits> = {}) {
  const { events } = openStores(t)
  // The server's timers do not keep the process alive, so the test does.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  let subscriptions = 0
  const counted: typeof events = {
    ...events,
    lastPosition: () => events.lastPosition(),
    subscribe(options) {
      subscriptions += 1
      return events.subscribe(options)
    },
  }
  const live = createLiveEvents({
    events: counted,
    projector,
    log,
    toJson: historyJson,
    limits: { ...LIVE_LIMITS, silenceMs: 20, ...limits },
  })
  t.teardown(() => live.end())
  return {
    live,
    events,
    subscriptions: () => subscriptions,
    write: (n: number, stream = 'issue-1.1') => events.append(stream, [comment(n)], 'any'),
    async follow(beginning: number | 'first' | 'now') {
      const subscriber = await live.subscribe(ALICE)
      const gone = new AbortController()
      const history = streamHistory(readerOf(events), 'issue-1.1')
      const batches = followHistory({
        history,
        filter: {},
        permissions,
        beginning,
        subscriber,
        projector,
        signal: gone.signal,
      })
      return { batches, subscriber, gone }
    },
  }
}

t.test('all subscribers share one subscription to the log, which ends with the last of them', async (t) => {
  const { live, subscriptions, write } = setUp(t)
  const subscribers = await Promise.all([live.subscribe(ALICE), live.subscribe(ALICE), live.subscribe(ALICE)])
  await write(1)
  t.equal(subscriptions(), 1)
  for (const subscriber of subscribers) subscriber.leave()
  const later = await live.subscribe(ALICE)
  await write(2)
  t.equal(subscriptions(), 2)
  later.leave()
})

/** The kind of refusal of a subscription; undefined when it succeeds. */
async function refusalOf(subscribing: Promise<Subscriber>): Promise<string | undefined> {
  try {
    await subscribing
  } catch (error) {
    if (error instanceof Refused) return error.refusal.refused
    throw error
  }
  return undefined
}

t.test('the number of subscribed clients is limited', async (t) => {
  const { live } = setUp(t, { subscribers: 2 })
  const [first] = await Promise.all([live.subscribe(ALICE), live.subscribe(BOB)])
  t.equal(await refusalOf(live.subscribe('account 3')), 'unavailable')
  first.leave()
  first.leave()
  t.ok(await live.subscribe('account 3'))
  t.equal(await refusalOf(live.subscribe('account 4')), 'unavailable', 'to leave twice frees one place')
})

t.test('each account and each address has a limited number of places', async (t) => {
  const { live } = setUp(t, { perAccount: 3, perAddress: 2 })
  for (const [client, share] of [
    [ALICE, 3],
    [BOB, 3],
    ['address 192.0.2.1', 2],
    ['address 192.0.2.2', 2],
  ] as const) {
    const asked = Array.from({ length: share }, () => live.subscribe(client))
    t.equal(await refusalOf(live.subscribe(client)), 'tooManyRequests', client)
    const subscribers = await Promise.all(asked)
    subscribers[0]?.leave()
    t.ok(await live.subscribe(client), 'a freed place can be taken again')
    t.equal(await refusalOf(live.subscribe(client)), 'tooManyRequests')
  }
})

t.test('a subscription that fails frees its place', async (t) => {
  const { live, events } = setUp(t, { perAccount: 1 })
  const lastPosition = events.lastPosition
  events.lastPosition = () => Promise.reject(new StoreUnavailable('away'))
  await t.rejects(live.subscribe(ALICE), StoreUnavailable)
  events.lastPosition = lastPosition
  t.ok(await live.subscribe(ALICE))
})

t.test('a subscriber that is too slow for the buffer reads the log, and misses no event', async (t) => {
  const { follow, write } = setUp(t, { events: 3 })
  await write(0)
  const { batches } = await follow('first')
  const ids: number[] = []
  for (let n = 1; n <= 40; n++) {
    await write(n)
    // Read in bursts, with more events between them than the buffer holds.
    if (n % 10 !== 0) continue
    while ((ids.at(-1) ?? -1) < n) {
      const { value } = await batches.next()
      for (const { id } of value ?? []) ids.push(id)
    }
  }
  t.strictSame(
    ids,
    Array.from({ length: 41 }, (_, i) => i),
  )
  await batches.return(undefined)
})

t.test('without events a subscriber gets empty batches', async (t) => {
  const { follow, write } = setUp(t)
  await write(0)
  const { batches } = await follow('now')
  t.strictSame((await batches.next()).value, [])
  await write(1, 'issue-1.2')
  t.strictSame((await batches.next()).value, [], 'events of other streams are not delivered')
  await write(2)
  for (;;) {
    const { value } = await batches.next()
    if (value?.length === 0) continue
    t.match(value, [{ id: 1 }])
    break
  }
})

t.test('the wait ends when the client disconnects', async (t) => {
  const { follow } = setUp(t, { silenceMs: 60_000 })
  const { batches, gone } = await follow('now')
  const next = batches.next()
  gone.abort()
  t.match(await next, { done: true })
})

t.test('when the log is lost, subscribers and new ones get an error', async (t) => {
  const { follow, events, live } = setUp(t, { silenceMs: 60_000 })
  const { batches } = await follow('now')
  const next = batches.next()
  await events.close()
  await t.rejects(next, StoreUnavailable)
  await t.rejects(live.subscribe(ALICE), StoreUnavailable)
})

t.test('when the server stops, all waits end', async (t) => {
  const { follow, live } = setUp(t, { silenceMs: 60_000 })
  const { batches } = await follow('now')
  const next = batches.next()
  live.end()
  t.match(await next, { done: true })
  await t.rejects(live.subscribe(ALICE), StoreUnavailable)
})
