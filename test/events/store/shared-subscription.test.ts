/** One subscription to the server for all subscribers of a process. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from '../../../src/events/store/event-store.ts'
import { shareSubscription } from '../../../src/events/store/shared-subscription.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { until } from '../../until.ts'
import { newEvent, newStream } from '../event-store-contract.ts'

function started(t: Test) {
  const store = openSqliteEventStore(join(t.testdir(), 'events.db'))
  t.teardown(() => store.close())
  /** The created subscriptions, and the running ones. */
  const made = { all: 0, now: 0 }
  let failing = new AbortController()
  async function* alone(options: SubscribeOptions) {
    made.all += 1
    made.now += 1
    const { signal: failed } = failing
    try {
      for await (const batch of store.subscribe({
        ...options,
        signal: AbortSignal.any([options.signal, failed]),
      })) {
        yield batch
        const last = batch.at(-1)
        if (last !== undefined) options.passed?.(last.position)
      }
      if (failed.aborted) throw new StoreUnavailable('the connection is lost')
    } finally {
      made.now -= 1
    }
  }
  const subscribe = shareSubscription({ alone, lastPosition: store.lastPosition })

  function follow(after: number, pause = async () => {}) {
    const ending = new AbortController()
    const events: RecordedEvent[] = []
    const passed: number[] = []
    const options = { after, signal: ending.signal, passed: (position: number) => passed.push(position) }
    const done = (async () => {
      for await (const batch of subscribe(options)) {
        events.push(...batch)
        await pause()
      }
    })()
    // A test may await it later.
    done.catch(() => {})
    t.teardown(() => ending.abort())
    return { events, passed, done, end: () => ending.abort() }
  }

  const append = (count: number) =>
    store.append(
      newStream(),
      Array.from({ length: count }, () => newEvent()),
      'no-stream',
    )
  const fail = () => {
    failing.abort()
    failing = new AbortController()
  }
  return { follow, append, made, fail }
}

const positions = ({ events }: { events: readonly RecordedEvent[] }) => events.map(({ position }) => position)
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

t.test(
  'all subscribers at the end of the log share one subscription; it ends with the last of them',
  async (t) => {
    const { follow, append, made } = started(t)
    await append(3)
    const subscribers = range(1, 5).map(() => follow(3))
    await append(2)
    for (const one of subscribers) {
      await until('both have come', async () => one.passed.at(-1) === 5)
      t.same(positions(one), [4, 5])
    }
    t.same(made, { all: 1, now: 1 })
    for (const one of subscribers) one.end()
    await Promise.all(subscribers.map(({ done }) => done))
    await until('it has ended', async () => made.now === 0)
  },
)

t.test('a subscriber that is behind reads alone, and shares when it is near the end', async (t) => {
  const { follow, append, made } = started(t)
  await append(50)
  const first = follow(50)
  const late = follow(0)
  await append(1)
  await until('both are at the end', async () => first.passed.at(-1) === 51 && late.passed.at(-1) === 51)
  await until('they share', async () => made.now === 1)
  await append(1)
  await until('both are at the end', async () => first.passed.at(-1) === 52 && late.passed.at(-1) === 52)
  t.same(positions(late), range(1, 52), 'each event once, in order')
  t.same(positions(first), [51, 52])
})

t.test('a subscriber that is too slow for the buffer misses no event', async (t) => {
  const { follow, append } = started(t)
  const { promise: gate, resolve: goOn } = Promise.withResolvers<void>()
  const fast = follow(0)
  const slow = follow(0, () => gate)
  for (let n = 1; n <= 8; n++) {
    await append(400)
    await until('one is at the end', async () => fast.events.length === 400 * n)
  }
  goOn()
  await until('the other is, too', async () => slow.events.length === 3200)
  t.same(positions(slow), range(1, 3200))
  await append(1)
  await until('both go on', async () => slow.events.length === 3201 && fast.events.length === 3201)
})

t.test('when the subscription is lost, all get the error and can subscribe again', async (t) => {
  const { follow, append, made, fail } = started(t)
  await append(1)
  const subscribers = [follow(1), follow(1), follow(1)]
  await until('they share', async () => made.now === 1)
  fail()
  await Promise.all(subscribers.map(({ done }) => t.rejects(done, StoreUnavailable)))
  const again = follow(1)
  await append(1)
  await until('the next has come', async () => again.events.length === 1)
  t.same(positions(again), [2])
})
