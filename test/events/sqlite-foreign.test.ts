import { join } from 'node:path'
import t from 'tap'
import { openSqliteEventStore } from '../../src/events/sqlite.ts'
import { newEvent, newStream } from './event-store-contract.ts'

t.test(
  'a subscription gets what another process appends to the same file, each once and in order',
  async (t) => {
    const file = join(t.testdir(), 'events.db')
    const server = openSqliteEventStore(file)
    const other = openSqliteEventStore(file)
    t.teardown(() => Promise.all([server.close(), other.close()]))
    // Looking out for others keeps no process alive.
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
        // From either side in turns, so that own and foreign appends wake the same reader.
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

t.test('two processes that append at once take turns, and neither loses anything', async (t) => {
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
