import { randomUUID } from 'node:crypto'
import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import { type Decider, deciderOf } from '../../../src/commands/execution/decider.ts'
import { execute } from '../../../src/commands/execution/execute.ts'
import { load } from '../../../src/commands/execution/load.ts'
import { takeNumber } from '../../../src/commands/execution/sequences.ts'
import { snapshots } from '../../../src/commands/execution/snapshots.ts'
import { Refused, refuse } from '../../../src/errors/refusal.ts'
import type { SequenceEvent } from '../../../src/events/catalog/numbers.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { type EventStore, WrongExpectedRevision } from '../../../src/events/store/event-store.ts'
import { aContext, openStores, writerOf } from '../../stores.ts'

const counter: Decider<number, SequenceEvent> = deciderOf({
  initialState: 0,
  snapshots: snapshots(),
  becomes: { NumberTaken: (count) => count + 1 },
})
const taken: SequenceEvent = { type: 'NumberTaken', data: { sequence: 'test' } }
const count = { stream: 'counter-1', step: 'count', decider: counter, decide: () => [taken] }

const revisions = async (events: EventStore, stream: string) => {
  return await Array.fromAsync(events.readStream(stream), (event) => event.revision)
}

t.test('a command loads, decides and appends; its context knows where', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const context = aContext()
  t.equal(await execute(writer, context, count), 1)
  t.equal(await execute(writer, context, count), 2)
  t.equal(context.written, await events.lastPosition())
  for await (const event of events.readStream('counter-1', { maxCount: 1 })) {
    t.match(event.metadata, {
      actor: { id: 1, login: 'alice' },
      at: context.at,
      correlationId: context.correlationId,
      schema: 1,
    })
  }
})

t.test('an event that no server could read again is not recorded', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const broken: SequenceEvent = JSON.parse('{"type":"NumberTaken","data":{}}')
  await t.rejects(
    execute(writer, aContext(), { ...count, decide: () => [broken] }),
    /NumberTaken is not recorded/,
  )
  await t.rejects(append(writer, aContext(), 'counter-1', 'count', [broken], 'any'), TypeError)
  t.equal(await events.lastPosition(), 0)
})

t.test('a refusal changes nothing', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const refused = { ...count, decide: () => refuse.conflict('no') }
  await t.rejects(execute(writer, aContext(), refused), new Refused(refuse.conflict('no')))
  t.equal(await events.lastPosition(), 0)
})

t.test('a command decides again on the new state after a conflict', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const seen: number[] = []
  const state = await execute(writer, aContext(), {
    ...count,
    async decide(current: number) {
      seen.push(current)
      // Another writer is faster, twice.
      if (seen.length <= 2) await append(writer, aContext(), 'counter-1', 'other', [taken], 'any')
      return [taken]
    },
  })
  t.same(seen, [0, 1, 2])
  t.equal(state, 3)
  t.same(await revisions(events, 'counter-1'), [0, 1, 2])
})

t.test('after twenty conflicts the command is refused', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  let decisions = 0
  const overtaken = execute(writer, aContext(), {
    ...count,
    async decide() {
      decisions += 1
      await append(writer, aContext(), 'counter-1', 'other', [taken], 'any')
      return [taken]
    },
  })
  await t.rejects(overtaken, { name: 'Refused', message: /change the resource/ })
  t.equal(decisions, 20)
  t.equal((await revisions(events, 'counter-1')).length, 20)
})

t.test('events that do not concern the decider do not make its decision invalid', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  await append(writer, aContext(), 'counter-1', 'first', [taken], 'any')
  const comment: DomainEvent = {
    type: 'CommentDeleted',
    data: { repoId: 1, index: 1, commentId: 1 },
  }
  let decisions = 0
  let comments = 0
  const store: EventStore = {
    ...events,
    async append(stream, batch, expected) {
      comments += 1
      if (comments <= 20) await append(writer, aContext(), 'counter-1', 'comment', [comment], 'any')
      return events.append(stream, batch, expected)
    },
  }
  const state = await execute(writerOf(store), aContext(), {
    ...count,
    decide() {
      decisions += 1
      return [taken]
    },
  })
  t.same([state, decisions], [2, 1])
  const endless: EventStore = {
    ...events,
    append: (stream) => Promise.reject(new WrongExpectedRevision(stream, 'no-stream', 0)),
  }
  await t.rejects(execute(writerOf(endless), aContext(), count), {
    name: 'Refused',
    message: /change the resource/,
  })
})

t.test('many commands at the same time all succeed, each with its own state', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const once = (): Promise<number> =>
    execute(writer, aContext(), count).catch((error: unknown) => {
      if (error instanceof Refused) return once()
      throw error
    })
  const states = await Promise.all(Array.from({ length: 10 }, once))
  t.same(
    states.toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  )
})

t.test('with an Idempotency-Key the same step of a retried request is the same event', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const retry = { namespace: randomUUID(), digest: 'body' }
  t.equal(await execute(writer, aContext({ retry }), count), 1)
  const again = aContext({ retry })
  t.equal(await execute(writer, again, count), 1)
  t.equal(again.written, 1, 'the answer still waits for the first event')
  t.same(await revisions(events, 'counter-1'), [0])
  t.equal(await takeNumber(writer, aContext({ retry }), 'numbers-7'), 1)
  t.equal(await takeNumber(writer, aContext({ retry }), 'numbers-7'), 1)
  t.equal(await takeNumber(writer, aContext(), 'numbers-7'), 2)
})

t.test('an Idempotency-Key with another body is refused', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const namespace = randomUUID()
  await execute(writer, aContext({ retry: { namespace, digest: 'one' } }), count)
  const other = aContext({ retry: { namespace, digest: 'two' } })
  await t.rejects(execute(writer, other, count), { name: 'Refused', message: /another request body/ })
  t.same(await revisions(events, 'counter-1'), [0])
})

t.test('a stream that was abandoned before its first event cannot begin', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const abandoned = { type: 'CreationAbandoned', data: { key: 'k' } } as const
  await append(writer, aContext(), 'counter-1', 'abandon', [abandoned], 'no-stream')
  await t.rejects(execute(writer, aContext(), count), { name: 'Refused', message: /took too long/ })
  t.match(await load(writer, 'counter-1', counter), { state: 0, abandoned: true })
})

t.test('commands that do not exclude each other all succeed, however many come at once', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const all = Array.from({ length: 64 }, () => execute(writer, aContext(), count))
  t.same(
    (await Promise.all(all)).sort((a, b) => a - b),
    Array.from({ length: 64 }, (_, i) => i + 1),
    'each once, on the state after the one before it',
  )
})

t.test('the same for commands of several nodes', async (t) => {
  const { events } = openStores(t)
  const nodes = [writerOf(events), writerOf(events), writerOf(events)]
  const all = nodes.flatMap((node) => Array.from({ length: 16 }, () => execute(node, aContext(), count)))
  await Promise.all(all)
  t.equal((await revisions(events, 'counter-1')).length, 48)
})

t.test('commands that exclude each other: the first succeeds, the others are refused', async (t) => {
  const { events } = openStores(t)
  const writer = writerOf(events)
  const only = {
    ...count,
    decide: (state: number) => (state === 0 ? [taken] : refuse.conflict('it is taken')),
  }
  const all = await Promise.allSettled(Array.from({ length: 16 }, () => execute(writer, aContext(), only)))
  t.equal(all.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const one of all) if (one.status === 'rejected') t.match(one.reason, { message: 'it is taken' })
})
