/** A scavenge while servers follow the log: it removes foreign events, and with them reached positions. */
import { join } from 'node:path'
import { EventStoreDBClient } from '@eventstore/db-client'
import t from 'tap'
import { openEventStoreDb } from '../../src/events/store/eventstoredb/eventstoredb.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { all, newEvent, newStream } from './event-store-contract.ts'

t.test('a subscription that resumes at a scavenged event misses no event of Mergelog', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  const store = openEventStoreDb(double.url)
  t.teardown(async () => {
    await store.close()
    await double.close()
  })
  const other = async () => (await double.append('orders', [{ type: 'Order', data: '{}' }])).position
  const ours = async (type: string) => {
    const event = { ...newEvent(), type }
    return { ...event, ...(await store.append(newStream(), [event], 'any')) }
  }
  /** The ids of the events that come after a position, up to the last one. */
  async function after(position: number, unwanted: ReadonlySet<string> = new Set()): Promise<string[]> {
    const ids: string[] = []
    const ending = new AbortController()
    const passed = (reached: number) => reached >= end.position && ending.abort()
    for await (const batch of store.subscribe({ after: position, signal: ending.signal, passed, unwanted })) {
      ids.push(...batch.map(({ id }) => id))
      if ((batch.at(-1)?.position ?? 0) >= end.position) break
    }
    return ids
  }
  const places = [await other(), await other()]
  const first = await ours('First')
  places.push(await other())
  const second = await ours('Second')
  places.push(await other(), await other())
  const end = await ours('End')
  const [beginning = 0, next = 0, between = 0, late = 0, later = 0] = places
  const rest = [first.id, second.id, end.id]
  t.strictSame(await after(beginning), rest)
  double.scavenge(places)
  t.strictSame(await after(beginning), rest)
  t.strictSame(await after(next), rest)
  t.strictSame(await after(first.position), rest.slice(1))
  t.strictSame(await after(between), rest.slice(1))
  t.strictSame(await after(late), rest.slice(2))
  t.strictSame(await after(later), rest.slice(2))
  t.strictSame(await after(beginning, new Set(['First'])), rest.slice(1))
  t.strictSame(await after(between, new Set(['Second'])), rest.slice(2))
})

t.test('the double leaves out the event after a scavenged position, as EventStoreDB does', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  const client = EventStoreDBClient.connectionString(double.url)
  t.teardown(async () => {
    await client.dispose()
    await double.close()
  })
  const append = async (type: string) => (await double.append(type, [{ type, data: '{}' }])).position
  const [gone, kept, last] = [await append('Gone'), await append('Kept'), await append('Last')]
  double.scavenge([gone])
  const at = { commit: BigInt(gone), prepare: BigInt(gone) }
  const [read] = await all(client.readAll({ fromPosition: at, maxCount: 1 }))
  t.equal(read?.event?.position?.commit, BigInt(kept))
  const subscription = client.subscribeToAll({ fromPosition: at })
  for await (const { event } of subscription) {
    t.equal(event?.position?.commit, BigInt(last))
    break
  }
})
