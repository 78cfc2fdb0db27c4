import { join } from 'node:path'
import t from 'tap'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { newEvent, newStream } from './event-store-contract.ts'

t.test(
  'a subscription gets the events that another process appends to the same file, each once and in order',
  async (t) => {
    const file = join(t.testdir(), 'events.db')
    const server = openSqliteEventStore(file)
    const other = openSqliteEventStore(file)
    t.teardown(() => Promise.all([server.close(), other.close()]))
    // The store's timer does not keep the process alive, so the test does.
    const alive = setInterval(() => {}, 1000)
    t.teardown(() => clearInterval(alive))
    const stream = newStream()
    const wanted = Array.from({ length: 20 }, () => newEvent())
    const ending = new AbortController()
    const got: string[] = []
    const reading = (async () => {
      for await (const batch of server.subscribe({ after: 0, signal: ending.signal })) {
        got.push(...batch.map(({ id }) => id))
        const next = wanted[got.length]
        if (next === undefined) return
        // The two stores append in turns, so that both kinds of appends wake the same reader.
        await (got.length % 2 === 0 ? other : server).append(stream, [next], got.length - 1)
      }
    })()
    const [first] = wanted
    if (first !== undefined) await other.append(stream, [first], 'no-stream')
    await reading
    t.same(
      got,
      wanted.map(({ id }) => id),
    )
  },
)

t.test('two processes that append at the same time lose no events', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const stores = [openSqliteEventStore(file), openSqliteEventStore(file)]
  t.teardown(() => Promise.all(stores.map((store) => store.close())))
  const stream = newStream()
  const appended = Array.from({ length: 200 }, (_, i) => stores[i % 2]?.append(stream, [newEvent()], 'any'))
  const places = await Promise.all(appended)
  t.same(
    places.map((place) => place?.revision).toSorted((a = 0, b = 0) => a - b),
    places.map((_, i) => i),
  )
})
