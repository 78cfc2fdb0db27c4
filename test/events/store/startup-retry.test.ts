/** A start survives a cut connection, and a permanent problem ends it immediately. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { StoreDenied, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { createStartupRetry } from '../../../src/events/store/startup-retry.ts'
import { startEventStoreCluster } from '../../doubles/eventstore.ts'
import { startMongoDouble } from '../../doubles/mongodb.ts'
import { startTestServer } from '../../start-server.ts'

for (const at of [1, 3, 13]) {
  t.test(`a connection that is cut at call ${at} of a start does not end the start`, async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'mergelog-cut-'))
    const double = await startEventStoreCluster({ nodes: 1, file: join(dir, 'eventstore.db') })
    const [node] = double.nodes
    let calls = 0
    let back: Promise<void> | undefined
    double.access.called = () => {
      calls += 1
      if (calls !== at) return
      node?.stop()
      back = node?.start()
    }
    t.teardown(async () => {
      await double.close()
      await rm(dir, { recursive: true, force: true, maxRetries: 3 })
    })
    const server = await startTestServer(t, { EVENTSTORE_URL: double.url, LOG_LEVEL: 'silent' })
    await back
    t.ok(calls > at, 'it was cut')
    t.equal((await server.fetch('admin', '/api/v1/user')).status, 200)
  })
}

// The driver itself repeats a read once.
for (const command of ['listCollections', 'createIndexes', 'find']) {
  t.test(`MongoDB that answers no ${command} for a moment does not end the start`, async (t) => {
    const file = join(t.testdir(), 'mongodb.db')
    const double = await startMongoDouble({ port: 0, file })
    t.teardown(() => double.close())
    double.fail({ command, times: 4, with: 'cut' })
    const server = await startTestServer(t, { MONGODB_URL: double.url, LOG_LEVEL: 'silent' })
    t.ok(double.commands.includes(command))
    t.equal((await server.fetch('admin', '/api/v1/user')).status, 200)
  })
}

t.test('a step of the start runs again after an outage, until the start has taken too long', async (t) => {
  const lines: unknown[] = []
  const log = { warn: (facts: unknown) => void lines.push(facts) }
  const steps = (errors: readonly Error[]) => {
    const left = [...errors]
    return async () => {
      const error = left.shift()
      if (error !== undefined) throw error
      return 'done'
    }
  }
  const away = new StoreUnavailable('away')
  t.equal(await createStartupRetry(log, 60_000)(steps([away, away])), 'done')
  t.match(lines, [{ err: away }, { err: away }])
  await t.rejects(createStartupRetry(log, 0)(steps([away])), away, 'the time is over')
  const denied = new StoreDenied('denied')
  await t.rejects(createStartupRetry(log, 60_000)(steps([denied])), denied, 'an operator must act')
})
