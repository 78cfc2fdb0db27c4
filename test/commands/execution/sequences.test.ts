import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { appendNumbered, takeNumber } from '../../../src/commands/execution/sequences.ts'
import { chainProblem, STREAM_START } from '../../../src/events/store/chain.ts'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import type { WriteServices } from '../../../src/services/services.ts'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { all } from '../../events/event-store-contract.ts'
import { aContext, openStores, writerOf } from '../../stores.ts'

/** A log that lists the number of events of each append. */
function watched(events: EventStore, options?: { isAlone: boolean }) {
  const appends: number[] = []
  const store: EventStore = {
    ...events,
    append(stream, appended, expected) {
      appends.push(appended.length)
      return events.append(stream, appended, expected)
    },
  }
  return { writer: writerOf(store, options), appends }
}

const take = (writer: WriteServices, count: number, sequence = 'numbers-1') =>
  Array.from({ length: count }, () => takeNumber(writer, aContext(), sequence))

const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1)

t.test('one append takes the numbers and ids of all waiting requests', async (t) => {
  const { writer, appends } = watched(openStores(t).events)
  const first = take(writer, 20)
  const other = take(writer, 3, 'ids-issue')
  t.same(await Promise.all(first), upTo(20), 'each its own, in the order in which they asked')
  t.same(await Promise.all(other), upTo(3))
  t.same(appends, [20, 3], 'one append for each sequence')
  t.same(await Promise.all(take(writer, 2)), [21, 22])
})

t.test('a request during an append waits for the next one; an append takes a limited number', async (t) => {
  const { events } = openStores(t)
  let late: Promise<number>[] = []
  const { writer, appends } = watched({
    ...events,
    append(stream, appended, expected) {
      if (late.length === 0) late = take(writer, 600)
      return events.append(stream, appended, expected)
    },
  })
  t.same(await Promise.all(take(writer, 2)), [1, 2])
  t.same(await Promise.all(late), upTo(602).slice(2))
  t.same(appends, [2, 250, 250, 100])
})

t.test('each request waits for the append that has its number, and names itself there', async (t) => {
  const writer = writerOf(openStores(t).events)
  const contexts = [aContext(), aContext({ actor: { id: 2, login: 'bob' } })]
  await Promise.all(contexts.map((context) => takeNumber(writer, context, 'numbers-1')))
  t.same(
    contexts.map(({ written }) => written),
    [2, 2],
  )
  const recorded = await all(writer.events.readStream('numbers-1'))
  t.same(
    recorded.map(({ metadata }) => [metadata.actor?.login, metadata.correlationId]),
    contexts.map(({ actor, correlationId }) => [actor?.login, correlationId]),
  )
})

t.test('a request with an Idempotency-Key takes its number alone, and the same one again', async (t) => {
  const { writer, appends } = watched(openStores(t).events)
  const retry = { namespace: randomUUID(), digest: 'body' }
  const [own, ...others] = await Promise.all([
    takeNumber(writer, aContext({ retry }), 'numbers-1'),
    ...take(writer, 5),
  ])
  t.same([own, ...others].toSorted(), upTo(6))
  t.equal(await takeNumber(writer, aContext({ retry }), 'numbers-1'), own)
  t.same(appends.toSorted(), [1, 1, 5])
})

t.test(
  'a failed append rejects all in it; when the log does not answer, also the waiting ones',
  async (t) => {
    const { events } = openStores(t)
    const failures: Error[] = [new Error('a mistake'), new StoreUnavailable('gone')]
    const outcomes = (taking: Promise<number>[]) =>
      Promise.all(taking.map((number) => number.catch((error: Error) => error.message)))
    const behind: Promise<(number | string)[]>[] = []
    const writer = writerOf({
      ...events,
      append(stream, appended, expected) {
        const failure = failures.shift()
        if (failure === undefined) return events.append(stream, appended, expected)
        behind.push(outcomes(take(writer, 2)))
        return Promise.reject(failure)
      },
    })
    t.same(await outcomes(take(writer, 3)), Array(3).fill('a mistake'))
    t.same(await behind[0], ['gone', 'gone'], 'these two met the second failure')
    t.same(await behind[1], ['gone', 'gone'], 'and these two waited behind them')
    t.same(await Promise.all(take(writer, 2)), [1, 2], 'nothing was appended, so no number is lost')
  },
)

t.test(
  'two servers that take numbers at the same time never take one twice; their chain is whole',
  async (t) => {
    const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
    const servers = [openEventStoreDb(double.url), openEventStoreDb(double.url)]
    t.teardown(async () => {
      for (const store of servers) await store.close()
      await double.close()
    })
    const taken: number[] = []
    async function client(writer: WriteServices): Promise<void> {
      for (let i = 0; i < 10; i++) taken.push(await takeNumber(writer, aContext(), 'numbers-1'))
    }
    await Promise.all(
      servers.flatMap((store) => {
        const writer = writerOf(store)
        return Array.from({ length: 6 }, () => client(writer))
      }),
    )
    t.same(
      taken.toSorted((a, b) => a - b),
      upTo(120),
    )
    let end = STREAM_START
    for (const store of servers) {
      for await (const event of store.readStream('numbers-1', { from: end.revision + 1 })) {
        const problem = chainProblem(event, end)
        if (problem !== undefined) t.fail(`revision ${event.revision}: ${problem}`)
        end = { revision: event.revision, hash: event.metadata.hash ?? null }
      }
    }
    t.equal(end.revision, 119)
  },
)

const OPENING = { repoId: 1, poster: { id: 1, login: 'alice' }, title: 'One', body: '' }
const FIELDS = { labels: [], milestone: null, assignees: [], deadline: null }

const openIssue = (writer: WriteServices, context = aContext()) =>
  appendNumbered(writer, context, 'open', ['numbers-1', 'ids-issue'], ([index = 0, id = 0]) => ({
    stream: `issue-1.${index}`,
    events: [{ type: 'IssueOpened', data: { ...OPENING, ...FIELDS, index, id } }],
    expected: 'no-stream',
  }))

t.test('a number, an id and their event are one append, each with its own number', async (t) => {
  const { writer, appends } = watched(openStores(t).events)
  const contexts = Array.from({ length: 20 }, () => aContext())
  const opened = await Promise.all(contexts.map((context) => openIssue(writer, context)))
  t.same(
    opened,
    upTo(20).map((n) => [n, n]),
  )
  t.same(appends, [], 'no append of its own for a number')
  t.same(await Promise.all(take(writer, 2)), [21, 22])
  for (const [i, context] of contexts.entries()) {
    const [event] = await all(writer.events.readStream(`issue-1.${i + 1}`))
    t.match(event, { data: { index: i + 1, id: i + 1 }, position: context.written })
  }
})

t.test('on EventStoreDB, an event with a number is appended after the number is stored', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'double.db') })
  const store = openEventStoreDb(double.url)
  t.teardown(async () => {
    await store.close()
    await double.close()
  })
  const writer = writerOf(store)
  const opened = await Promise.all(Array.from({ length: 10 }, () => openIssue(writer)))
  t.same(
    opened,
    upTo(10).map((n) => [n, n]),
  )
  const order = (await all(store.readAll())).map(({ stream }) => stream)
  t.ok(order.indexOf('issue-1.1') > order.lastIndexOf('numbers-1'))
  t.equal((await all(store.readStream('issue-1.10'))).length, 1)
})

/** A log with a round trip for an append, like EventStoreDB. */
function withoutTogether(events: EventStore): EventStore {
  const { appendTogether: _, ...others } = events
  return others
}

t.test('on EventStoreDB, ids are reserved ahead under load, and numbers never', async (t) => {
  const { writer, appends } = watched(withoutTogether(openStores(t).events), { isAlone: true })
  const ids: number[] = []
  for (let i = 0; i < 200; i++) ids.push(await takeNumber(writer, aContext(), 'ids-issue'))
  t.same(
    ids,
    ids.toSorted((a, b) => a - b),
    'they grow',
  )
  t.equal(new Set(ids).size, 200)
  t.ok(appends.length < 100, `${appends.length} appends`)
  const numbers: number[] = []
  for (let i = 0; i < 200; i++) numbers.push(await takeNumber(writer, aContext(), 'numbers-1'))
  t.same(numbers, upTo(200), 'without a gap')
})

t.test('the embedded log takes no id ahead', async (t) => {
  const { writer, appends } = watched(openStores(t).events)
  for (let i = 1; i <= 50; i++) t.equal(await takeNumber(writer, aContext(), 'ids-comment'), i)
  t.equal(appends.length, 50)
})

t.test('a request while ids are being taken gets a reserved one', async (t) => {
  const events = withoutTogether(openStores(t).events)
  let during = () => {}
  const slow: EventStore = {
    ...events,
    append(stream, appended, expected) {
      during()
      return events.append(stream, appended, expected)
    },
  }
  const { writer, appends } = watched(slow, { isAlone: true })
  for (let i = 0; i < 50; i++) await Promise.all(take(writer, 4, 'ids-issue'))
  let late: Promise<number>[] = []
  during = () => {
    late = take(writer, 5, 'ids-issue')
  }
  const before = appends.length
  const given: number[] = []
  while (late.length === 0) given.push(await takeNumber(writer, aContext(), 'ids-issue'))
  given.push(...(await Promise.all(late)))
  t.equal(appends.length, before + 1)
  t.equal(new Set(given).size, given.length)
})

t.test('two servers on one log never give the same id', async (t) => {
  const events = withoutTogether(openStores(t).events)
  // Even with a wrong setting.
  const servers = [writerOf(events, { isAlone: true }), writerOf(events, { isAlone: true })]
  const given = await Promise.all(
    servers.map(async (server) => {
      const ids: number[] = []
      for (let i = 0; i < 100; i++) ids.push(...(await Promise.all(take(server, 3, 'ids-issue'))))
      return ids
    }),
  )
  t.equal(new Set(given.flat()).size, 600)
})

t.test('a request with an Idempotency-Key gets its own id again, never a reserved one', async (t) => {
  const writer = writerOf(withoutTogether(openStores(t).events), { isAlone: true })
  for (let i = 0; i < 50; i++) await takeNumber(writer, aContext(), 'ids-issue')
  const retry = { namespace: randomUUID(), digest: 'body' }
  const id = await takeNumber(writer, aContext({ retry }), 'ids-issue')
  t.equal(await takeNumber(writer, aContext({ retry }), 'ids-issue'), id)
  t.ok((await takeNumber(writer, aContext(), 'ids-issue')) > id, 'a later request gets a larger id')
})

t.test('a request to another server, after an id was given, gets a larger id', async (t) => {
  const events = withoutTogether(openStores(t).events)
  const servers = [writerOf(events), writerOf(events)] as const
  // Many are requested, so that some would be reserved ahead.
  await Promise.all(servers.flatMap((server) => take(server, 50, 'ids-comment')))
  let last = 0
  for (let i = 0; i < 20; i++) {
    for (const server of servers) {
      const id = await takeNumber(server, aContext(), 'ids-comment')
      t.ok(id > last, `${id} after ${last}`)
      last = id
    }
  }
})

t.test('an event that is too large takes no number', async (t) => {
  const { events } = openStores(t)
  const large = { ...OPENING, body: 'x'.repeat(1_000_000) }
  const opening = appendNumbered(writerOf(events), aContext(), 'open', ['numbers-1'], ([index = 0]) => ({
    stream: `issue-1.${index}`,
    events: [{ type: 'IssueOpened', data: { ...large, ...FIELDS, index, id: 1 } }],
    expected: 'no-stream',
  }))
  await t.rejects(opening, /at most \d+ can be recorded at once/)
  t.same(await all(events.readAll()), [])
})
