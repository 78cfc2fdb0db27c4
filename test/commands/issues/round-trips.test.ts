import { join } from 'node:path'
import { EventStoreDBClient } from '@eventstore/db-client'
import t, { type Test } from 'tap'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { eventStoreWithLongTimeouts } from '../../doubles/long-timeouts.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'

/** Counts appends and other calls of the driver to the event store, until the test ends. */
function countedCalls(t: Test, { services: { events } }: TestServer): () => Record<string, number> {
  const calls: Record<string, number> = {}
  const { append } = events
  // All use one call of the driver.
  events.append = (...args) => {
    calls.append = (calls.append ?? 0) + 1
    return append(...args)
  }
  for (const name of ['appendToStream', 'readStream', 'readAll', 'subscribeToAll'] as const) {
    const original = EventStoreDBClient.prototype[name]
    Reflect.set(EventStoreDBClient.prototype, name, function (this: EventStoreDBClient, ...args: unknown[]) {
      calls[name] = (calls[name] ?? 0) + 1
      return Reflect.apply(original, this, args)
    })
    t.teardown(() => Reflect.set(EventStoreDBClient.prototype, name, original))
  }
  return () => calls
}

t.test('one client takes at most 4 round trips to the event store for POST issue', async (t) => {
  const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
  t.teardown(() => double.close())
  const server = await startTestServer(t, { EVENTSTORE_URL: eventStoreWithLongTimeouts(double) })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'project' })
  const post = (title: string) => alice.repos.issueCreateIssue('alice', 'project', { title })
  // The first one learns the ends of the number streams.
  await post('first')
  const calls = countedCalls(t, server)
  for (let n = 2; n <= 11; n++) t.equal((await post(`number ${n}`)).data.number, n)
  const { append = 0, ...others } = calls()
  t.same(others, {}, 'nothing is read')
  t.ok(append >= 20, 'the number, then the issue')
  t.ok(append <= 30, `the id beside the number, unless it was taken ahead: ${append}`)
})
