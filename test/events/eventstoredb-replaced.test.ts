/** A server that returns with another log, while Mergelog's servers run. */
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LOG_START, LogReplaced } from '../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../src/events/store/eventstoredb/eventstoredb.ts'
import { type EventStoreDouble, startEventStoreDouble } from '../doubles/eventstore.ts'
import { startTestServer, statusOf } from '../start-server.ts'
import { until } from '../until.ts'
import { newEvent, newStream } from './event-store-contract.ts'

/** A double whose log can be replaced while its clients stay connected. */
async function exchangeable(t: Test) {
  const dir = t.testdir()
  let file = 'first.db'
  let double: EventStoreDouble = await startEventStoreDouble({ port: 0, file: join(dir, file) })
  const { port, url } = double
  t.teardown(() => double.close())
  async function exchange(to: string): Promise<void> {
    await double.close()
    file = to
    double = await startEventStoreDouble({ port, file: join(dir, file) })
  }
  return {
    url,
    double: () => double,
    exchange,
    /** Keeps a copy of the log as it is now. */
    async copy(name: string): Promise<void> {
      await double.close()
      await cp(join(dir, file), join(dir, name))
      double = await startEventStoreDouble({ port, file: join(dir, file) })
    },
  }
}

t.test('a log without a known event is neither written nor followed, until the event is back', async (t) => {
  const log = await exchangeable(t)
  const store = openEventStoreDb(log.url)
  t.teardown(() => store.close())
  const append = () => store.append(newStream(), [newEvent()], 'any')
  const follow = async (after: number) => {
    for await (const [first] of store.subscribe({ after, signal: new AbortController().signal }))
      return first?.position
    return undefined
  }
  const usable = () =>
    until('the log is written again', () =>
      append().then(
        () => true,
        () => false,
      ),
    )
  await append()
  await log.copy('older.db')
  await usable()
  const end = await store.lastPosition()

  for (const other of ['empty.db', 'older.db']) {
    await log.exchange(other)
    await until('it is found out', () =>
      append().then(
        () => false,
        (error) => error instanceof LogReplaced,
      ),
    )
    await t.rejects(store.lastPosition(), LogReplaced)
    await t.rejects(follow(LOG_START), LogReplaced)
    // Even if it has grown beyond the last known event.
    const { position } = await log
      .double()
      .append('orders', new Array(20).fill({ type: 'Order', data: '{}' }))
    t.ok(position > end)
    await t.rejects(append(), LogReplaced)
    await t.rejects(store.lastPosition(), LogReplaced)
    await t.rejects(follow(end), LogReplaced)
  }

  await log.exchange('first.db')
  await usable()
  t.ok((await store.lastPosition()) > end)
  t.ok((await follow(end)) ?? 0 > end)
})

t.test(
  'with an older log, requests get 503, /healthz gives the reason, and numbers are not reused',
  async (t) => {
    const log = await exchangeable(t)
    const server = await startTestServer(t, { EVENTSTORE_URL: log.url, LOG_LEVEL: 'silent' })
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app' })
    const open = () => statusOf(alice.repos.issueCreateIssue('alice', 'app', { title: 'One' }))
    const health = async () => {
      const answer = await server.fetch(null, '/healthz')
      return { code: answer.status, text: await answer.text() }
    }
    const isWell = async () => (await open()) === 201 && (await health()).code === 200
    await until('the server is well', isWell)
    await log.copy('older.db')
    await until('the server is well', isWell)
    const { data: before } = await alice.repos.issueListIssues('alice', 'app')

    await log.exchange('older.db')
    await until('the server has noticed', async () =>
      /the server now has a different log/.test((await health()).text),
    )
    t.equal((await health()).code, 503)
    t.equal(await open(), 503)
    const { data: meanwhile } = await alice.repos.issueListIssues('alice', 'app')
    t.strictSame(meanwhile, before, 'what was known is still answered')

    await log.exchange('first.db')
    await until('the server is well again', isWell)
    const { data: after } = await alice.repos.issueListIssues('alice', 'app')
    const numbers = after.map(({ number }) => number)
    t.equal(new Set(numbers).size, numbers.length)
    t.ok(after.length > before.length)
  },
)
