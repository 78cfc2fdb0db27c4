import t from 'tap'
import { v5 as uuidV5 } from 'uuid'
import { chainProblem, STREAM_START } from '../../../../src/events/store/chain.ts'
import {
  type EventText,
  type NewEvent,
  type ReadStreamOptions,
  type RecordedEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../../../src/events/store/event-store.ts'
import { createChainedAppend } from '../../../../src/events/store/eventstoredb/chain.ts'
import { newEvent } from '../../event-store-contract.ts'

/** A server with one stream, which counts its calls. It confirms a repeated append at the same place like the first. */
function aServer() {
  const stored: RecordedEvent[] = []
  const calls = { reads: 0, writes: 0 }
  let lost = 0

  async function write(stream: string, events: readonly EventText[], expected: number | 'no-stream') {
    calls.writes += 1
    const at = expected === 'no-stream' ? 0 : expected + 1
    const isRepeated = events.every(({ id }, i) => stored[at + i]?.id === id)
    if (!isRepeated) {
      if (at !== stored.length) throw new WrongExpectedRevision(stream, expected, stored.length - 1)
      for (const { id, type, data, metadata } of events) {
        const parsed = { data: JSON.parse(data), metadata: JSON.parse(metadata) }
        stored.push({ id, type, ...parsed, stream, revision: stored.length, position: 1 + stored.length })
      }
    }
    if (lost > 0) {
      lost -= 1
      throw new StoreUnavailable('the answer is lost')
    }
    return { revision: at + events.length - 1, position: at + events.length }
  }

  /** One server of Mergelog that writes to it. */
  function aWriter() {
    async function* readStream(_: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
      calls.reads += 1
      const { direction = 'forwards', from, maxCount } = options
      const found =
        direction === 'forwards'
          ? stored.slice(from ?? 0)
          : stored.slice(0, (from ?? stored.length) + 1).reverse()
      const read = found.slice(0, maxCount)
      yield* read
      for (const event of read) chain.seen(event)
    }
    const others = async () => ({ onlyOthers: false, count: 0 })
    const deletedBefore = async () => 0
    const chain = createChainedAppend({ readStream, write, others, deletedBefore, lockTimeoutMs: 5000 })
    return chain
  }
  return {
    calls,
    stored,
    aWriter,
    /** Stores the events of the next `count` appends, without an answer. */
    loseAnswers(count: number) {
      lost = count
    },
    problems() {
      let end = STREAM_START
      return stored.flatMap((event) => {
        const problem = chainProblem(event, end)
        end = { revision: event.revision, hash: event.metadata.hash ?? null }
        return problem ?? []
      })
    },
  }
}

/** An event with an id that derives from a request. */
const derived = (name: string): NewEvent => ({
  ...newEvent(),
  id: uuidV5(name, '5f6f3f5e-7f0e-4c39-9e55-2f0b5c7f8a11'),
})

t.test('ids of recent appends and last revisions are cached', async (t) => {
  const server = aServer()
  const { appendAnywhere } = server.aWriter()
  for (let i = 0; i < 10; i++) await appendAnywhere('s', [newEvent(), newEvent()], 'any')
  t.same(server.calls, { reads: 1, writes: 10 }, 'only the first append reads')
  t.equal(server.stored.length, 20)
  t.same(server.problems(), [])
})

t.test('a conflict reads and retries', async (t) => {
  const server = aServer()
  const [one, other] = [server.aWriter(), server.aWriter()]
  await one.appendAnywhere('s', [newEvent()], 'any')
  await other.appendAnywhere('s', [newEvent()], 'any')
  const before = { ...server.calls }
  t.equal((await one.appendAnywhere('s', [newEvent()], 'any')).revision, 2)
  t.same(server.calls, { reads: before.reads + 1, writes: before.writes + 2 })
  t.same(server.problems(), [])
})

t.test('a subscription updates the ends of streams that another server wrote', async (t) => {
  const server = aServer()
  const [one, other] = [server.aWriter(), server.aWriter()]
  await one.appendAnywhere('s', [newEvent()], 'any')
  await other.appendAnywhere('s', [newEvent()], 'any')
  for (const event of server.stored) one.followed(event)
  const before = { ...server.calls }
  await one.appendAnywhere('s', [newEvent()], 'any')
  t.same(server.calls, { reads: before.reads, writes: before.writes + 1 })
  t.same(server.problems(), [])
})

t.test('a repeated append whose answer was lost is detected, also with other data', async (t) => {
  for (const expected of ['any', 'no-stream'] as const) {
    const server = aServer()
    const { appendAnywhere, appendAfter } = server.aWriter()
    const append = (event: NewEvent) =>
      expected === 'any' ? appendAnywhere('s', [event], 'any') : appendAfter('s', [event], expected)
    const event = newEvent()
    server.loseAnswers(1)
    await t.rejects(append(event), StoreUnavailable)
    t.equal((await append({ ...event, data: { changed: true } })).revision, 0)
    await appendAnywhere('s', [newEvent()], 'any')
    t.equal(server.stored.length, 2)
    t.same(server.problems(), [], `expected ${expected}: the next event is linked to what is stored`)
  }
})

t.test('an id that derives from a request is looked up in the stream each time', async (t) => {
  const server = aServer()
  const [before, after] = [server.aWriter(), server.aWriter()]
  await before.appendAnywhere('s', [newEvent()], 'any')
  const { revision } = await before.appendAnywhere('s', [derived('one')], 'any')
  for (let i = 0; i < 600; i++) await before.appendAnywhere('s', [newEvent()], 'any')
  await before.appendAnywhere('s', [derived('two')], 'any')
  // Another process repeats the last request, after a restart.
  await after.appendAnywhere('s', [newEvent()], 'any')
  t.equal(
    (await after.appendAnywhere('s', [{ ...derived('two'), data: { changed: true } }], 'any')).revision,
    602,
  )
  t.equal((await after.appendAfter('s', [derived('one')], revision - 1)).revision, revision)
  t.equal((await after.appendAnywhere('s', [newEvent()], 'any')).revision, 604)
  t.same(server.problems(), [])
})
