/** Filtered pages of a stream's history read each event of the stream only once. */
import { join } from 'node:path'
import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import { streamHistory } from '../../../src/queries/history/history-source.ts'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { aContext, counted, openStores, readerOf, writerOf } from '../../stores.ts'

const taken: DomainEvent = { type: 'NumberTaken', data: { sequence: 'a' } }
const alice = { id: 1, login: 'alice' }
const bob = { id: 2, login: 'bob' }
const NEVER = new AbortController().signal

async function historyOf(test: Parameters<typeof openStores>[0], count: number) {
  const { events } = openStores(test)
  const more = (n: number, actor: typeof alice) =>
    append(writerOf(events), aContext({ actor }), 'numbers-a', 'take', Array(n).fill(taken), 'any')
  await more(count, alice)
  await append(writerOf(events), aContext({ actor: bob }), 'numbers-b', 'take', [taken], 'any')
  const watched = counted(events)
  const history = streamHistory(readerOf(watched.events), 'numbers-a')
  return {
    more,
    async page(actor: string, skip: number, limit: number, signal = NEVER) {
      const before = watched.reads()
      const { events, total } = await history.page({ actor }, { skip, limit }, signal)
      return { revisions: events.map(({ revision }) => revision), total, reads: watched.reads() - before }
    },
  }
}

t.test('a second filtered page reads only its own events, and includes events appended since', async (t) => {
  const { page, more } = await historyOf(t, 600)
  t.strictSame(await page('alice', 0, 3), { revisions: [0, 1, 2], total: 600, reads: 600 })
  t.strictSame(await page('alice', 598, 3), { revisions: [598, 599], total: 600, reads: 0 })
  t.strictSame(await page('bob', 0, 3), { revisions: [], total: 0, reads: 0 })
  await more(2, bob)
  t.strictSame(await page('bob', 1, 3), { revisions: [601], total: 2, reads: 2 })
  t.strictSame(await page('bob', 2, 3), { revisions: [], total: 2, reads: 0 })
})

t.test('simultaneous pages agree, and the events that they read are cached', async (t) => {
  const { page, more } = await historyOf(t, 600)
  const [one, other] = await Promise.all([page('alice', 0, 1), page('alice', 599, 1)])
  t.strictSame([one.revisions, one.total], [[0], 600])
  t.strictSame([other.revisions, other.total], [[599], 600])
  await more(1, alice)
  t.strictSame(await page('alice', 600, 1), { revisions: [600], total: 601, reads: 1 })
})

t.test('a client that disconnects during the reading leaves no incomplete cache entry', async (t) => {
  const { page } = await historyOf(t, 600)
  await page('alice', 0, 1, AbortSignal.abort())
  t.strictSame(await page('alice', 599, 1), { revisions: [599], total: 600, reads: 600 })
})

t.test('pages have each event once, also with foreign events in the stream', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  const events = openEventStoreDb(double.url)
  t.teardown(async () => {
    await events.close()
    await double.close()
  })
  const history = streamHistory(readerOf(events), 'numbers-a')
  const take = () => append(writerOf(events), aContext({ actor: alice }), 'numbers-a', 'take', [taken], 'any')
  const pages = async (filter: { actor?: string }) => {
    const seen: number[] = []
    let total = 0
    for (let skip = 0; skip === 0 || skip < total; skip += 2) {
      const page = await history.page(filter, { skip, limit: 2 }, NEVER)
      seen.push(...page.events.map(({ revision }) => revision))
      total = page.total
    }
    return { seen, total }
  }
  for (const revisions of [[1], [1, 3], [1, 3, 5]]) {
    await double.append('numbers-a', [{ type: 'OfAnotherApplication', data: '{}' }])
    await take()
    const all = { seen: revisions, total: revisions.length }
    t.strictSame(await pages({}), all)
    t.strictSame(await pages({ actor: 'alice' }), all)
  }
})
