/** How a process goes on after a failure. */
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { append } from '../../src/commands/execute.ts'
import { StoreUnavailable, StreamUnusable } from '../../src/events/event-store.ts'
import { GitUnavailable } from '../../src/git/errors.ts'
import { aloneNode } from '../../src/nodes/nodes.ts'
import { createProcessRunner, processPosition } from '../../src/processes/process-manager.ts'
import { aContext, openStores } from '../stores.ts'
import { until } from '../until.ts'

const RETRY_MS = [1, 2, 3]

/** A process that reacts to two events as `react` says. `reactions`: the sequences that it has reacted to. */
async function started(t: Test, react: (sequence: string, tries: number) => Promise<void>) {
  const { events, views } = openStores(t)
  await views.prepare([])
  const take = (sequence: string) =>
    append(events, aContext(), sequence, 'take', [{ type: 'NumberTaken', data: { sequence } }], 'no-stream')
  await take('one')
  const { position } = await take('two')
  const reactions: string[] = []
  const tries = { one: 0, two: 0, other: 0 }
  const projector = { waitFor: async () => true, stopped: () => [], position: () => position }
  const runner = createProcessRunner(
    pino({ level: 'silent' }),
    events,
    views,
    projector,
    {
      name: 'mentions',
      handles: ({ type }) => type === 'NumberTaken',
      async react({ data }) {
        const sequence = 'sequence' in data ? data.sequence : 'other'
        const which = sequence === 'one' || sequence === 'two' ? sequence : 'other'
        tries[which] += 1
        await react(sequence, tries[which])
        reactions.push(sequence)
      },
    },
    aloneNode('test'),
    RETRY_MS,
  )
  await runner.start()
  t.teardown(() => runner.stop())
  const isDone = async () => (await processPosition(views, 'mentions')) === position
  return { runner, reactions, tries, done: () => until('both events are done', isDone) }
}

t.test(
  'an outage of a store, of git or of the disk loses no reaction, also when it takes long',
  async (t) => {
    for (const error of [new StoreUnavailable('the log does not answer'), new GitUnavailable('disk full')]) {
      await t.test(error.name, async (t) => {
        let isAway = true
        const { runner, reactions, tries, done } = await started(t, async () => {
          if (isAway) throw error
        })
        await until('it was tried more often than any other failure', () => tries.one > 2 * RETRY_MS.length)
        t.match(runner.status().stopped, /it waits until a store, git or the disk answers/)
        t.same(reactions, [])
        isAway = false
        await done()
        t.same(reactions, ['one', 'two'])
        t.equal(runner.status().stopped, undefined)
      })
    }
  },
)

t.test('a process gives up on an event that fails each time, and goes on with the next', async (t) => {
  for (const error of [new Error('a mistake'), new StreamUnusable('the stream has a tombstone')]) {
    await t.test(error.name, async (t) => {
      const { runner, reactions, tries, done } = await started(t, async (sequence) => {
        if (sequence === 'one') throw error
      })
      await done()
      t.same(reactions, ['two'])
      t.equal(tries.one, RETRY_MS.length + 1)
      t.equal(runner.status().stopped, undefined)
    })
  }
})

t.test('a failure that passes is no reason to give up', async (t) => {
  const { reactions, done } = await started(t, async (_, tries) => {
    if (tries <= RETRY_MS.length) throw new Error('for a moment')
  })
  await done()
  t.same(reactions, ['one', 'two'])
})

t.test('a process that waits for a store ends when it is told to', async (t) => {
  const { runner, reactions, tries } = await started(t, async () => {
    throw new StoreUnavailable('the log does not answer')
  })
  await until('it waits', () => tries.one > RETRY_MS.length)
  await runner.stop()
  t.same(reactions, [])
})
