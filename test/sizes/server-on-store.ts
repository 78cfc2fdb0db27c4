/** Servers on each event store, for tests of size limits: the embedded one, and EventStoreDB's double. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPulls, type Test } from '../commands/pull-requests/pull-repository.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { eventStoreWithLongTimeouts } from '../doubles/long-timeouts.ts'

export const EVENT_STORES = ['the embedded store', 'EventStoreDB'] as const

async function environmentOf(test: Test, store: (typeof EVENT_STORES)[number]) {
  if (store === 'the embedded store') return {}
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-sizes-'))
  const double = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  test.teardown(async () => {
    await double.close()
    await rm(dir, { recursive: true, force: true, maxRetries: 3 })
  })
  return { EVENTSTORE_URL: eventStoreWithLongTimeouts(double) }
}

/** A server with users on that store, without a log of its refusals. */
export async function startOn(test: Test, store: (typeof EVENT_STORES)[number], environment = {}) {
  return startPulls(test, { LOG_LEVEL: 'silent', ...(await environmentOf(test, store)), ...environment })
}
