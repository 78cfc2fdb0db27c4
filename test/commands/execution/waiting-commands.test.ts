import t from 'tap'
import { changeReactions } from '../../../src/commands/reactions/change.ts'
import { type EventStore, StoreUnavailable, TooManyWriters } from '../../../src/events/store/event-store.ts'
import { aContext, openStores, writerOf } from '../../stores.ts'

const COMMANDS = 4
const issue = { repoId: 1, index: 1, isPull: false, commentId: null }

/** Concurrent commands on one issue. The read of the first one fails when all are queued. */
async function together(events: EventStore, error: Error): Promise<{ reads: number; failed: number }> {
  let reads = 0
  const failing: EventStore = {
    ...events,
    async *readStream(stream, options) {
      reads += 1
      if (reads === 1) {
        await new Promise((resolve) => setImmediate(resolve))
        throw error
      }
      yield* events.readStream(stream, options)
    },
  }
  const writer = writerOf(failing)
  const one = () => changeReactions(writer, aContext(), issue, 'react', () => [])
  const results = await Promise.allSettled(Array.from({ length: COMMANDS }, one))
  return { reads, failed: results.filter(({ status }) => status === 'rejected').length }
}

t.test('queued commands wait once for a log that does not answer', async (t) => {
  const { events } = openStores(t)
  const away = new StoreUnavailable('the log does not answer')
  t.strictSame(await together(events, away), { reads: 1, failed: COMMANDS })
})

t.test('a command with too many conflicts is the only one that fails', async (t) => {
  const { events } = openStores(t)
  const contended = new TooManyWriters('written by too many')
  t.strictSame(await together(events, contended), { reads: COMMANDS, failed: 1 })
})
