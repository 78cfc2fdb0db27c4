import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type t from 'tap'
import { append } from '../src/commands/execution/append.ts'
import type { CommandContext } from '../src/commands/execution/command-context.ts'
import type { DomainEvent } from '../src/events/domain-events.ts'
import { type Appended, type EventStore, LOG_START } from '../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import type { ReadStore } from '../src/projections/store/read-store.ts'
import { openSqliteReadStore } from '../src/projections/store/sqlite/sqlite.ts'
import { createHistoryCaches } from '../src/services/history/history-caches.ts'
import type { HistoryServices, WriteServices } from '../src/services/services.ts'
import { createWriteState } from '../src/services/writes/write-state.ts'

/** Embedded stores for one test, in the test's own directory. */

type Test = Pick<typeof t, 'teardown' | 'testdir'>

export function openStores(test: Test): { events: EventStore; views: ReadStore } {
  const dir = test.testdir()
  const events = openSqliteEventStore(join(dir, 'events.db'))
  const views = openSqliteReadStore(join(dir, 'views.db'))
  test.teardown(async () => {
    await events.close()
    await views.close()
  })
  return { events, views }
}

/** The services of commands that write to a log. */
export const writerOf = (
  events: EventStore,
  options?: Parameters<typeof createWriteState>[0],
): WriteServices => ({ events, writeState: createWriteState(options) })

/** The services of reads of histories. */
export const readerOf = (events: EventStore): HistoryServices => ({
  events,
  historyCaches: createHistoryCaches(events),
})

/** A log that counts the events that are read from its streams. */
export function counted(events: EventStore): { events: EventStore; reads: () => number } {
  let reads = 0
  const watched: EventStore = {
    ...events,
    async *readStream(stream, options) {
      for await (const event of events.readStream(stream, options)) {
        reads += 1
        yield event
      }
    },
  }
  return { events: watched, reads: () => reads }
}

/** Number of small events in one append, also with sealed texts. */
const PART = 500

/** Appends any number of small events, in several appends. Resolves to the place of the last one. */
export async function appendMany(
  store: EventStore,
  stream: string,
  events: readonly DomainEvent[],
  context = aContext(),
): Promise<Appended> {
  const writer = writerOf(store)
  const part = () => append(writer, context, stream, 'many', events.slice(done, done + PART), 'any')
  let done = 0
  let last = await part()
  for (done = PART; done < events.length; done += PART) last = await part()
  return last
}

/** The context of a request from alice. */
export function aContext(changes: Partial<CommandContext> = {}): CommandContext {
  const id = randomUUID()
  return {
    actor: { id: 1, login: 'alice' },
    at: new Date().toISOString(),
    correlationId: id,
    causationId: id,
    written: LOG_START,
    ...changes,
  }
}
