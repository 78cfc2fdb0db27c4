/** Retries of a process after a failure. */
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { append } from '../../src/commands/execution/append.ts'
import { aloneNode } from '../../src/events/nodes/nodes.ts'
import { type EventStore, StoreUnavailable } from '../../src/events/store/event-store.ts'
import { processPosition } from '../../src/processes/process-manager.ts'
import { createProcessRunner } from '../../src/processes/process-runner.ts'
import type { ReadStore } from '../../src/projections/store/read-store.ts'
import { aContext, openStores, writerOf } from '../stores.ts'
import { until } from '../until.ts'

const RETRY_MS = [1, 2, 3]

const away = (what: string) => new StoreUnavailable(`${what} does not answer`)

/**
 * A process that reacts to two events as `react` says, and ignores the event after them. `reactions`: the sequences of
 * its reactions.
 */
async function started(
  t: Test,
  react: (sequence: string, tries: number) => Promise<void>,
  changed: (stores: { events: EventStore; views: ReadStore }) => {
    events?: EventStore
    views?: ReadStore
  } = () => ({}),
) {
  const stores = openStores(t)
  const { events, views } = stores
  const take = (sequence: string) =>
    append(
      writerOf(events),
      aContext(),
      sequence,
      'take',
      [{ type: 'NumberTaken', data: { sequence } }],
      'no-stream',
    )
  await views.prepare([])
  await take('one')
  const { position } = await take('two')
  await append(
    writerOf(events),
    aContext(),
    'other',
    'take',
    [{ type: 'CreationAbandoned', data: { key: 'k' } }],
    'no-stream',
  )
  const reactions: string[] = []
  let tries = 0
  const projector = { waitFor: async () => true, stopped: () => [], position: () => position }
  const used = { ...stores, ...changed(stores) }
  const runner = createProcessRunner(
    pino({ level: 'silent' }),
    used.events,
    used.views,
    projector,
    {
      name: 'mentions',
      handles: ({ type }) => type === 'NumberTaken',
      async react({ data }) {
        const sequence = 'sequence' in data ? data.sequence : ''
        if (sequence === 'one') tries += 1
        await react(sequence, tries)
        reactions.push(sequence)
      },
    },
    aloneNode('test'),
    RETRY_MS,
  )
  await runner.start()
  t.teardown(() => runner.stop())
  const isDone = async () => ((await processPosition(views, 'mentions')) ?? 0) >= position
  return {
    ...stores,
    runner,
    reactions,
    tries: () => tries,
    done: () => until('both events are done', isDone),
  }
}

t.test(
  'an outage of a store loses no reaction, whatever its duration and whatever fails in it',
  async (t) => {
    for (const which of ['the log', 'the read models']) {
      await t.test(which, async (t) => {
        let isAway = true
        const { runner, reactions, tries, done } = await started(
          t,
          async () => {
            if (isAway) throw away(which)
          },
          ({ events, views }) =>
            which === 'the log'
              ? {
                  events: {
                    ...events,
                    lastPosition: () => (isAway ? Promise.reject(away(which)) : events.lastPosition()),
                  },
                }
              : {
                  views: {
                    ...views,
                    apply: (...all) => (isAway ? Promise.reject(away(which)) : views.apply(...all)),
                  },
                },
        )
        await until('it was tried more often than any other failure', () => tries() > 2 * RETRY_MS.length)
        t.match(runner.status().stopped, /it waits for a store that does not answer/)
        t.same(reactions, [])
        isAway = false
        await done()
        t.same(reactions, ['one', 'two'])
        t.equal(runner.status().stopped, undefined)
      })
    }
  },
)

t.test('a process gives up on an event that fails each time, and continues with the next', async (t) => {
  for (const error of [new Error('a mistake'), new StoreUnavailable('the stream is written too slowly')]) {
    await t.test(error.message, async (t) => {
      const { runner, reactions, tries, done } = await started(t, async (sequence) => {
        if (sequence === 'one') throw error
      })
      await done()
      t.same(reactions, ['two'])
      t.equal(tries(), RETRY_MS.length + 1)
      t.equal(runner.status().stopped, undefined)
    })
  }
})

t.test('a temporary failure is retried', async (t) => {
  const { reactions, done } = await started(t, async (_, tries) => {
    if (tries <= RETRY_MS.length) throw new Error('for a moment')
  })
  await done()
  t.same(reactions, ['one', 'two'])
})

t.test('a process that waits for a store ends at the stop', async (t) => {
  const { runner, reactions, tries } = await started(
    t,
    () => Promise.reject(away('the log')),
    ({ events }) => ({ events: { ...events, lastPosition: () => Promise.reject(away('the log')) } }),
  )
  await until('it waits', () => tries() > RETRY_MS.length)
  await runner.stop()
  t.same(reactions, [])
})

t.test(
  'a process that is restarted, because another one could not start, reacts to each event once',
  async (t) => {
    const { runner, reactions, done } = await started(t, async () => {})
    await runner.start()
    await done()
    await runner.stop()
    t.same(reactions, ['one', 'two'])
  },
)

t.test('a process that stops between two events reacts to the second one after the next start', async (t) => {
  let isReacting = false
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const { views, runner, reactions } = await started(t, () => {
    isReacting = true
    return ended
  })
  await until('it reacts to the first one', () => isReacting)
  const stopped = runner.stop()
  end()
  await stopped
  t.same(reactions, ['one'])
  t.equal(await processPosition(views, 'mentions'), 1, 'the next start does not react to the first one again')
})
