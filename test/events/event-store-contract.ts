/** The contract of every event store. The test of each adapter runs this suite. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { chainProblem, hashOf, STREAM_START } from '../../src/events/store/chain.ts'
import {
  type EventStore,
  type ExpectedRevision,
  LOG_START,
  type NewEvent,
  type RecordedEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../src/events/store/event-store.ts'
import { until } from '../until.ts'

export interface OpenStore {
  store: EventStore
  /** Opens the same log again; the caller closes it. */
  reopen: () => Promise<EventStore>
}

/** Runs the suite. `open` opens a store for one test, and closes it in the test's teardown. */
export function eventStoreContract(t: Test, open: (t: Test) => Promise<OpenStore>): void {
  t.test('an append to a new stream begins at revision 0 and each event has its place', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const events = [newEvent({ n: 0 }), newEvent({ n: 1 }), newEvent({ n: 2 })]
    const appended = await store.append(stream, events, 'no-stream')
    t.equal(appended.revision, 2)
    const recorded = await all(store.readStream(stream))
    t.strictSame(recorded.map(asNew), events)
    t.strictSame(
      recorded.map((event) => event.revision),
      [0, 1, 2],
    )
    t.ok(recorded.every((event) => event.stream === stream))
    t.equal(recorded.at(-1)?.position, appended.position, 'the append answers with the last position')
    t.ok(recorded.every(({ position }) => Number.isSafeInteger(position) && position > LOG_START))
  })

  t.test('an append with the revision that was read succeeds', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const first = await store.append(stream, [newEvent()], 'no-stream')
    const second = await store.append(stream, [newEvent()], first.revision)
    t.equal(second.revision, 1)
    t.ok(second.position > first.position)
  })

  t.test('an append with a wrong expected revision is refused with the actual one', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const before = [newEvent(), newEvent()]
    await store.append(stream, before, 'no-stream')
    for (const expected of [0, 2, 100, 'no-stream'] as const) {
      const error = await refusal(store.append(stream, [newEvent()], expected))
      t.match(error, { stream, expected, actual: 1 }, `expected ${expected}`)
    }
    t.strictSame((await all(store.readStream(stream))).map(asNew), before, 'nothing was written')
  })

  t.test('no-stream, stream-exists and any expect what their names say', async (t) => {
    const { store } = await open(t)
    const missing = newStream()
    for (const expected of ['stream-exists', 0] as const) {
      const error = await refusal(store.append(missing, [newEvent()], expected))
      t.match(error, { stream: missing, expected, actual: null }, `${expected} on a new stream`)
    }
    t.strictSame(await all(store.readStream(missing)), [])
    t.equal((await store.append(missing, [newEvent()], 'any')).revision, 0)
    t.equal((await store.append(missing, [newEvent()], 'any')).revision, 1)
    t.equal((await store.append(missing, [newEvent()], 'stream-exists')).revision, 2)
    t.ok(await refusal(store.append(missing, [newEvent()], 'no-stream')))
  })

  t.test('when several writers expect the same revision, exactly one wins', async (t) => {
    const { store } = await open(t)
    for (const expected of ['no-stream', 2] as const) {
      const stream = newStream()
      if (expected === 2) await store.append(stream, [newEvent(), newEvent(), newEvent()], 'no-stream')
      const batches = Array.from({ length: 10 }, () => [newEvent(), newEvent(), newEvent()])
      const outcomes = await Promise.allSettled(
        batches.map((events) => store.append(stream, events, expected)),
      )
      const winners = batches.filter((_, i) => outcomes[i]?.status === 'fulfilled')
      t.equal(winners.length, 1)
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') t.type(outcome.reason, WrongExpectedRevision)
      }
      const written = (await all(store.readStream(stream))).slice(expected === 2 ? 3 : 0)
      t.strictSame(
        written.map(asNew),
        winners[0],
        'the whole batch of the winner is written, and nothing else',
      )
    }
  })

  t.test(
    'concurrent writers that expect any revision all succeed, and each revision is used once',
    async (t) => {
      const { store } = await open(t)
      const stream = newStream()
      const appended = await Promise.all(
        Array.from({ length: 20 }, () => store.append(stream, [newEvent()], 'any')),
      )
      const revisions = appended.map(({ revision }) => revision).sort((a, b) => a - b)
      t.strictSame(revisions, [...revisions.keys()])
    },
  )

  t.test('a batch is all or nothing', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const old = newEvent()
    await store.append(stream, [old], 'no-stream')
    await refusal(store.append(stream, [newEvent(), newEvent(), newEvent()], 5))
    await refusal(store.append(stream, [old, newEvent()], 'any'))
    await refusal(store.append(stream, [old, newEvent()], 'no-stream'))
    t.strictSame((await all(store.readStream(stream))).map(asNew), [old])
  })

  t.test('an append without events is a mistake of the caller', async (t) => {
    const { store } = await open(t)
    await t.rejects(store.append(newStream(), [], 'any'), TypeError)
  })

  const kinds: [ExpectedRevision, string][] = [
    [1, 'a revision'],
    ['any', 'any'],
    ['stream-exists', 'stream-exists'],
    ['no-stream', 'no-stream'],
  ]
  for (const [expected, name] of kinds) {
    t.test(`a repeated append that expects ${name} writes nothing and gives the same answer`, async (t) => {
      const { store } = await open(t)
      const stream = newStream()
      if (expected !== 'no-stream') await store.append(stream, [newEvent(), newEvent()], 'no-stream')
      const events = [newEvent(), newEvent()]
      const first = await store.append(stream, events, expected)
      t.strictSame(await store.append(stream, events, expected), first, 'immediately')
      await store.append(stream, [newEvent()], first.revision)
      const length = first.revision + 2
      t.strictSame(await store.append(stream, events, expected), first, 'after others have written')
      t.equal((await all(store.readStream(stream))).length, length)
    })
  }

  t.test('an event id is known only in its own stream', async (t) => {
    const { store } = await open(t)
    const event = newEvent()
    const [one, other] = [newStream(), newStream()]
    await store.append(one, [event], 'any')
    t.equal((await store.append(other, [event], 'any')).revision, 0)
    t.strictSame((await all(store.readStream(other))).map(asNew), [event])
  })

  t.test('a stream is read from any revision, in both directions, up to a count', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const events = Array.from({ length: 10 }, (_, n) => newEvent({ n }))
    await store.append(stream, events, 'no-stream')
    const revisions = async (options: Parameters<EventStore['readStream']>[1]) =>
      (await all(store.readStream(stream, options))).map((event) => event.revision)
    t.strictSame(await revisions({ from: 7 }), [7, 8, 9])
    t.strictSame(await revisions({ from: 3, maxCount: 2 }), [3, 4])
    t.strictSame(await revisions({ maxCount: 1 }), [0])
    t.strictSame(await revisions({ from: 10 }), [])
    t.strictSame(await revisions({ maxCount: 0 }), [])
    t.strictSame(await revisions({ maxCount: Number.POSITIVE_INFINITY }), [...events.keys()])
    t.strictSame(await revisions({ direction: 'backwards' }), [...events.keys()].reverse())
    t.strictSame(await revisions({ direction: 'backwards', maxCount: 1 }), [9])
    t.strictSame(await revisions({ direction: 'backwards', from: 2 }), [2, 1, 0])
    t.strictSame(await revisions({ direction: 'backwards', from: 4, maxCount: 2 }), [4, 3])
    t.strictSame(await revisions({ direction: 'backwards', from: 1000, maxCount: 2 }), [9, 8])
    t.strictSame(await revisions({ direction: 'backwards', from: 0 }), [0])
  })

  t.test('a stream that does not exist reads as empty', async (t) => {
    const { store } = await open(t)
    t.strictSame(await all(store.readStream(newStream())), [])
    t.strictSame(await all(store.readStream(newStream(), { direction: 'backwards', maxCount: 1 })), [])
    t.strictSame(await all(store.readStream(newStream(), { from: 5 })), [])
  })

  t.test('a long stream is read completely, and a reader may stop early', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const count = 1300
    for (let start = 0; start < count; start += 650) {
      const events = Array.from({ length: 650 }, (_, i) => newEvent({ n: start + i }))
      await store.append(stream, events, start === 0 ? 'no-stream' : start - 1)
    }
    const read = await all(store.readStream(stream))
    t.strictSame(
      read.map((event) => event.revision),
      [...Array(count).keys()],
    )
    let seen = 0
    for await (const event of store.readStream(stream)) {
      t.equal(event.revision, seen)
      seen += 1
      if (seen === 3) break
    }
    t.equal((await all(store.readStream(stream, { from: count - 1 }))).length, 1, 'and can be read again')
  })

  t.test('the log has the events of all streams in the order in which they were appended', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const streams = [newStream(), newStream(), newStream()]
    const written: NewEvent[] = []
    for (let n = 0; n < 12; n++) {
      const events = n % 4 === 0 ? [newEvent({ n }), newEvent({ n })] : [newEvent({ n })]
      await store.append(streams[n % 3] ?? '', events, 'any')
      written.push(...events)
    }
    const forwards = await all(store.readAll({ from: start }))
    t.strictSame(forwards.map(asNew), written)
    t.ok(increasing(forwards), 'positions grow')
    t.equal(forwards.at(-1)?.position, await store.lastPosition())

    const ids = (events: readonly { id: string }[]) => events.map(({ id }) => id)
    const backwards = await all(store.readAll({ direction: 'backwards', maxCount: written.length }))
    t.strictSame(ids(backwards), ids(written).reverse())

    const fifth = forwards[4]?.position ?? 0
    t.strictSame(ids(await all(store.readAll({ from: fifth }))), ids(written).slice(5), 'after a position')
    t.strictSame(ids(await all(store.readAll({ from: fifth, maxCount: 3 }))), ids(written).slice(5, 8))
    const before = await all(store.readAll({ from: fifth, direction: 'backwards', maxCount: 3 }))
    t.strictSame(ids(before), ids(written).slice(1, 4).reverse(), 'before a position')
    t.strictSame(await all(store.readAll({ from: await store.lastPosition() })), [])
    t.strictSame(await all(store.readAll({ from: LOG_START, direction: 'backwards' })), [])
    t.strictSame(await all(store.readAll({ maxCount: 0 })), [])
  })

  t.test('events are read by their positions, in the order of the log', async (t) => {
    const { store } = await open(t)
    const streams = [newStream(), newStream(), newStream()]
    for (let n = 0; n < 200; n++) await store.append(streams[n % 3] ?? '', [newEvent({ n })], 'any')
    const events = (await all(store.readAll())).filter(({ stream }) => streams.includes(stream))
    t.equal(events.length, 200)
    // As texts, because comparing thousands of objects takes tap seconds.
    const at = async (wanted: RecordedEvent[]) =>
      t.equal(
        JSON.stringify(await all(store.readPositions(wanted.map(({ position }) => position)))),
        JSON.stringify(wanted),
      )
    await at([])
    await at(events)
    await at(events.slice(-1))
    await at(events.filter((_, i) => i % 7 === 0))
    await at([events[0], events[1], events[150], events[199]].filter((event) => event !== undefined))
    const last = await store.lastPosition()
    t.strictSame(
      await all(store.readPositions([last + 1, last + 1000])),
      [],
      'after the end there are no events',
    )
    const long = await store.append(
      newStream(),
      Array.from({ length: 2500 }, () => newEvent()),
      'any',
    )
    const many = await all(store.readAll({ from: last }))
    t.equal(many.at(-1)?.position, long.position)
    await at(many)
    const end = await store.lastPosition()
    for (let n = 0; n < 10; n++)
      await store.append(newStream(), [newEvent({ text: 'x'.repeat(900_000) })], 'any')
    await at(await all(store.readAll({ from: end })))
  })

  t.test('many parallel appends to different streams are all written', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const streams = Array.from({ length: 200 }, newStream)
    const appended = await Promise.all(
      streams.map((stream) =>
        store.append(stream, [newEvent({ stream }), newEvent({ stream })], 'no-stream'),
      ),
    )
    t.equal(new Set(appended.map(({ position }) => position)).size, streams.length)
    const log = await all(store.readAll({ from: start }))
    t.equal(log.length, 2 * streams.length)
    t.ok(increasing(log))
    const last = new Map(log.map((event) => [event.stream, event]))
    streams.forEach((stream, i) => {
      const place = { revision: last.get(stream)?.revision, position: last.get(stream)?.position }
      if (JSON.stringify(place) !== JSON.stringify(appended[i])) t.fail(`${stream} is elsewhere`)
    })
  })

  t.test('a subscription delivers existing events, then new ones, each once and in order', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const stream = newStream()
    const before = Array.from({ length: 30 }, (_, n) => newEvent({ n }))
    await store.append(stream, before, 'no-stream')
    const reader = follow(t, store, start)
    await reader.has(30)
    const after = [newEvent({ n: 30 }), newEvent({ n: 31 })]
    for (const event of after) await store.append(stream, [event], 'any')
    await reader.has(32)
    t.strictSame(reader.events.map(asNew), [...before, ...after])
    t.ok(increasing(reader.events))
  })

  t.test('a subscription that resumes while writers append delivers each event exactly once', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const total = 200
    let written = 0
    const writers = Array.from({ length: 4 }, async () => {
      const stream = newStream()
      while (written < total) {
        written += 1
        await store.append(stream, [newEvent()], 'any')
      }
    })
    const seen: RecordedEvent[] = []
    let sessions = 0
    while (seen.length < total) {
      const abort = new AbortController()
      const quota = seen.length + 17
      for await (const batch of store.subscribe({
        after: seen.at(-1)?.position ?? start,
        signal: abort.signal,
        batchSize: 10,
      })) {
        if (batch.length === 0 || batch.length > 10) t.fail(`a batch of ${batch.length}`)
        seen.push(...batch)
        if (seen.length >= quota || seen.length >= total) abort.abort()
      }
      sessions += 1
    }
    await Promise.all(writers)
    t.ok(sessions > 5, `${sessions} sessions`)
    const log = await all(store.readAll({ from: start }))
    t.strictSame(
      seen.map(({ id }) => id),
      log.map(({ id }) => id),
    )
    t.ok(increasing(seen))
  })

  t.test('a subscription to some types gets those, and learns that it has passed the others', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const stream = newStream()
    const ofType = (type: string): NewEvent => ({ ...newEvent(), type })
    let passed = start
    let came = start
    const wanted: RecordedEvent[] = []
    const abort = new AbortController()
    t.teardown(() => abort.abort())
    const done = (async () => {
      const options = {
        after: start,
        signal: abort.signal,
        unwanted: new Set(['Other']),
        passed(position: number) {
          if (position <= passed) t.fail('it has passed this position before')
          passed = position
        },
      }
      for await (const batch of store.subscribe(options)) {
        if (batch.length === 0) t.fail('an empty batch')
        for (const event of batch) {
          if (event.position <= Math.max(passed, came)) t.fail('an event that it has passed')
          came = event.position
          wanted.push(event)
        }
      }
    })()
    const [first, second] = [ofType('Wanted'), ofType('Wanted')]
    // Some of them alone, some among others, both while it reads and while it waits.
    await store.append(stream, [ofType('Other'), first, ofType('Other')], 'no-stream')
    await until('the first came', async () => wanted.length === 1)
    const { position } = await store.append(stream, [ofType('Other'), ofType('Other')], 'any')
    await until('the others are passed or came', async () => Math.max(passed, came) >= position)
    await store.append(stream, [second], 'any')
    await until('the second came', async () => wanted.length === 2)
    t.strictSame(wanted.map(asNew), [first, second])
    abort.abort()
    await done
  })

  t.test('of a long log, a subscription gets only its types, and passes the rest to the end', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const ofType = (type: string): NewEvent => ({ ...newEvent(), type })
    const wanted: NewEvent[] = []
    let end = start
    for (let n = 0; n < 25; n++) {
      const events = Array.from({ length: 100 }, () => ofType('Other'))
      if (n % 10 === 3) {
        const one = ofType('Wanted')
        wanted.push(one)
        events[n] = one
      }
      end = (await store.append(newStream(), events, 'no-stream')).position
    }
    const abort = new AbortController()
    const came: RecordedEvent[] = []
    let reached = start
    const passed: number[] = []
    const options = {
      after: start,
      signal: abort.signal,
      batchSize: 1,
      unwanted: new Set(['Other']),
      passed(position: number) {
        reached = position
        passed.push(position)
      },
    }
    const done = (async () => {
      for await (const batch of store.subscribe(options)) {
        came.push(...batch)
        reached = batch.at(-1)?.position ?? reached
      }
    })()
    await until('it has passed all', async () => reached >= end)
    t.strictSame(came.map(asNew), wanted)
    // A reader may resume at any point, also between events that it does not want.
    const step = Math.ceil(passed.length / 8)
    for (const after of passed.filter((_, n) => n % step === 0)) {
      const next = came.find(({ position }) => position > after)
      if (next === undefined) continue
      for await (const [event] of store.subscribe({ ...options, after, passed: () => {} })) {
        t.equal(event?.id, next.id, `after ${after}`)
        break
      }
    }
    abort.abort()
    await done
  })

  t.test('of two subscriptions with one signal, the first to end leaves it to the other', async (t) => {
    const { store } = await open(t)
    const after = await store.lastPosition()
    await store.append(newStream(), [newEvent()], 'no-stream')
    const abort = new AbortController()
    const options = { after, signal: abort.signal }
    let came = 0
    const staying = (async () => {
      for await (const batch of store.subscribe(options)) came += batch.length
    })()
    await until('it waits for the next event', async () => came === 1)
    for await (const _ of store.subscribe(options)) break
    abort.abort()
    await staying
  })

  t.test('two subscriptions each see every event', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const readers = [follow(t, store, start), follow(t, store, start)]
    const stream = newStream()
    for (let n = 0; n < 5; n++) await store.append(stream, [newEvent({ n })], 'any')
    for (const reader of readers) {
      await reader.has(5)
      t.strictSame(
        reader.events.map((event) => event.revision),
        [0, 1, 2, 3, 4],
      )
    }
  })

  t.test('a slow subscriber gets all events', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const stream = newStream()
    const count = 600
    for (let n = 0; n < count; n += 300) {
      await store.append(
        stream,
        Array.from({ length: 300 }, (_, i) => newEvent({ n: n + i })),
        'any',
      )
    }
    const abort = new AbortController()
    let next = 0
    for await (const batch of store.subscribe({ after: start, signal: abort.signal, batchSize: 50 })) {
      for (const event of batch) {
        if (event.revision !== next) t.fail(`revision ${event.revision} instead of ${next}`)
        next += 1
      }
      await store.lastPosition()
      if (next >= count) abort.abort()
    }
    t.equal(next, count)
  })

  t.test('aborting ends a subscription without an error', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const waiting = follow(t, store, start)
    await store.append(newStream(), [newEvent()], 'any')
    await waiting.has(1)
    waiting.abort.abort()
    await waiting.done
    const aborted = AbortSignal.abort()
    for await (const _ of store.subscribe({ after: start, signal: aborted })) t.fail('nothing is delivered')
    await store.append(newStream(), [newEvent()], 'any')
    t.equal(waiting.events.length, 1, 'no event comes after it')
  })

  t.test('an event of 1 MB is read back unchanged', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    const stream = newStream()
    const event = newEvent({ text: 'Mergelog! '.repeat(100_000) })
    await store.append(stream, [event], 'no-stream')
    const [read] = await all(store.readStream(stream))
    t.ok(read !== undefined && JSON.stringify(asNew(read)) === JSON.stringify(event))
    const reader = follow(t, store, start)
    await reader.has(1)
    t.equal(JSON.stringify(reader.events[0]), JSON.stringify(read))
  })

  t.test('every string that JSON can hold is read back unchanged', async (t) => {
    const { store } = await open(t)
    const stream = `${newStream()}-größe-本-🚀`
    const data = {
      emoji: '👩‍👩‍👧‍👦 🏳️‍🌈',
      nul: 'a\u0000b',
      controls: '\u0001\u001f\u007f\u0085\u2028\u2029\r\n\t',
      lone: ['\ud83d', '\ude00', 'x\ude00\ud83dy'],
      composed: ['\u00e9', 'e\u0301'],
      rtl: 'שלום',
      bom: '\ufeff',
      quotes: `"'\\\`$`,
      empty: '',
      nested: { deep: [{ '': null }, [], {}, true, 1e21, -0.5, Number.MAX_SAFE_INTEGER] },
      ключ: 'key',
    }
    const event = newEvent(data, 'Größe🚀Changed')
    await store.append(stream, [event], 'no-stream')
    const [read] = await all(store.readStream(stream))
    t.strictSame(read && asNew(read), event)
    t.equal(read?.stream, stream)
  })

  t.test('metadata is read back unchanged, with and without its optional fields', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    const plain = newEvent()
    const full = newEvent()
    full.metadata = { ...full.metadata, actor: { id: 7, login: 'zoë' }, schema: 3, request: 'sha256:00' }
    full.metadata.node = 'node-1'
    await store.append(stream, [plain, full], 'no-stream')
    t.strictSame(
      (await all(store.readStream(stream))).map((event) => asNew(event).metadata),
      [plain.metadata, full.metadata],
    )
  })

  t.test(
    'each event names the hash of the event before it, also within one append; the first event names none',
    async (t) => {
      const { store } = await open(t)
      const stream = newStream()
      await store.append(stream, [newEvent({ n: 0 }), newEvent({ n: 1 }), newEvent({ n: 2 })], 'no-stream')
      await store.append(stream, [newEvent({ n: 3 }), newEvent({ n: 4 })], 2)
      await store.append(stream, [newEvent({ n: 5 })], 'any')
      const recorded = await all(store.readStream(stream))
      t.equal(recorded[0]?.metadata.previous, null)
      checkChain(t, recorded, 6)
      const elsewhere = newStream()
      await store.append(elsewhere, recorded.slice(2), 'no-stream')
      checkChain(t, await all(store.readStream(elsewhere)), 4)
    },
  )

  t.test('a repeated append does not change the chain, even if its events differ', async (t) => {
    const { store } = await open(t)
    for (const expected of ['no-stream', 0, 'any', 'stream-exists'] as const) {
      const stream = newStream()
      if (expected !== 'no-stream') await store.append(stream, [newEvent()], 'any')
      const events = [newEvent({ n: 1 }), newEvent({ n: 2 })]
      await store.append(stream, events, expected)
      const before = await all(store.readStream(stream))
      await store.append(
        stream,
        events.map((event) => ({ ...event, data: { changed: true } })),
        expected,
      )
      t.strictSame(await all(store.readStream(stream)), before, `expected ${expected}`)
      await store.append(stream, [newEvent()], 'any')
      checkChain(t, await all(store.readStream(stream)), before.length + 1)
    }
  })

  t.test('simultaneous appends to one stream, also from two nodes, make one chain', async (t) => {
    const { store, reopen } = await open(t)
    const other = await reopen()
    const stream = newStream()
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 === 0 ? store : other).append(stream, [newEvent({ n }), newEvent({ n })], 'any'),
      ),
    )
    checkChain(t, await all(store.readStream(stream)), 40)
    await other.close()
  })

  t.test('an append of two nodes that lost a race is linked anew, so that the chain is sound', async (t) => {
    const { store, reopen } = await open(t)
    const other = await reopen()
    const stream = newStream()
    let last = (await store.append(stream, [newEvent()], 'any')).revision
    let lost = 0
    for (let round = 0; round < 8; round++) {
      // Both nodes append to random streams with the same expected revision: at most one of them wins.
      const appends = [store, other].flatMap((node) => [
        ...[1, 2].map(() => node.append(stream, [newEvent({ round }), newEvent({ round })], 'any')),
        node.append(stream, [newEvent({ round })], last),
        node.append(stream, [newEvent({ round })], 'any'),
      ])
      const answers = await Promise.allSettled(appends)
      const refused = answers.filter((answer) => answer.status === 'rejected')
      for (const { reason } of refused) t.ok(reason instanceof WrongExpectedRevision, String(reason))
      t.ok(refused.length === 1 || refused.length === 2, `${refused.length} of the two lost`)
      lost += refused.length
      last += 10 + (2 - refused.length)
      const revisions = answers.flatMap((answer) =>
        answer.status === 'fulfilled' ? [answer.value.revision] : [],
      )
      t.equal(Math.max(...revisions), last, 'each knows its own place')
      t.equal(new Set(revisions).size, revisions.length, 'which nobody else has')
    }
    checkChain(t, await all(store.readStream(stream)), 1 + 8 * 12 - lost)
    await other.close()
  })

  t.test('appends make one chain even if they are sent before the earlier append is confirmed', async (t) => {
    const { store } = await open(t)
    const stream = newStream()
    await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        store.append(stream, [newEvent({ n })], n === 0 ? 'no-stream' : n - 1),
      ),
    )
    checkChain(t, await all(store.readStream(stream)), 10)
  })

  t.test('values that JSON can write in several ways have one hash', async (t) => {
    const { store, reopen } = await open(t)
    const stream = newStream()
    const data = { b: -0, 10: 1e21, 9: 1e-7, a: ['\u0000\ud83d', '\u2028é🚀', undefined], gone: undefined }
    const large = { large: 0.1 + 0.2, ['__proto__']: 'own', date: new Date(0), text: '\u001f\\u001F' }
    await store.append(stream, [newEvent(data), newEvent(large)], 'no-stream')
    const again = await reopen()
    await again.append(stream, [newEvent()], 1)
    checkChain(t, await all(again.readStream(stream)), 3)
    await again.close()
  })

  t.test('the last position is the position of the last event', async (t) => {
    const { store } = await open(t)
    const { position } = await store.append(newStream(), [newEvent(), newEvent()], 'any')
    t.equal(await store.lastPosition(), position)
  })

  t.test('a log that is opened again has all events', async (t) => {
    const { store, reopen } = await open(t)
    const stream = newStream()
    const events = [newEvent(), newEvent()]
    const appending = store.append(stream, events, 'no-stream')
    await store.close()
    const appended = await appending
    const again = await reopen()
    t.strictSame((await all(again.readStream(stream))).map(asNew), events)
    t.equal(await again.lastPosition(), appended.position)
    t.strictSame(await again.append(stream, events, 'no-stream'), appended, 'the ids of its events are known')
    t.equal((await again.append(stream, [newEvent()], 1)).revision, 2)
    await again.close()
  })

  t.test('a closed store gives StoreUnavailable, and closing twice is fine', async (t) => {
    const { store } = await open(t)
    const start = await store.lastPosition()
    await store.append(newStream(), [newEvent()], 'any')
    const reader = follow(t, store, start)
    await reader.has(1)
    await store.close()
    await store.close()
    await t.rejects(reader.done, StoreUnavailable)
    await t.rejects(store.append(newStream(), [newEvent()], 'any'), StoreUnavailable)
    await t.rejects(all(store.readStream(newStream())), StoreUnavailable)
    await t.rejects(all(store.readAll({ maxCount: 1 })), StoreUnavailable)
    await t.rejects(store.lastPosition(), StoreUnavailable)
    await t.rejects(follow(t, store, start).done, StoreUnavailable)
  })
}

/** A unique stream name, so that the suite can run on a log with other data. */
export function newStream(): string {
  return `contract-${randomUUID()}`
}

export function newEvent(data: object = {}, type = 'ContractTested'): NewEvent {
  const id = randomUUID()
  const at = new Date().toISOString()
  return { id, type, data, metadata: { actor: null, at, correlationId: id, causationId: 'test', schema: 1 } }
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  return await Array.fromAsync(items)
}

/** Collects the events of a subscription. `has` waits until it has delivered that many. */
export function follow(t: Test, store: EventStore, after: number) {
  const abort = new AbortController()
  t.teardown(() => abort.abort())
  const events: RecordedEvent[] = []
  let arrived = () => {}
  const done = (async () => {
    for await (const batch of store.subscribe({ after, signal: abort.signal })) {
      if (batch.length === 0) throw new Error('an empty batch')
      events.push(...batch)
      arrived()
    }
  })()
  const ended = done.then(() => {
    throw new Error('the subscription has ended')
  })
  ended.catch(() => {})
  const has = async (count: number) => {
    while (events.length < count) {
      const more = new Promise<void>((resolve) => {
        arrived = resolve
      })
      await Promise.race([more, ended])
    }
  }
  return { abort, events, done, has }
}

async function refusal(append: Promise<unknown>): Promise<WrongExpectedRevision> {
  try {
    await append
  } catch (error) {
    if (error instanceof WrongExpectedRevision) return error
    throw error
  }
  throw new Error('the append was not refused')
}

/** The event as it was appended, without its hashes. */
function asNew({ id, type, data, metadata: { previous, hash, ...metadata } }: RecordedEvent): NewEvent {
  return { id, type, data, metadata }
}

function increasing(events: readonly RecordedEvent[]): boolean {
  return events.every((event, i) => i === 0 || event.position > (events[i - 1]?.position ?? 0))
}

/** Checks that a stream is one chain with the given number of events. */
function checkChain(t: Test, events: readonly RecordedEvent[], length: number): void {
  t.equal(events.length, length)
  let end = STREAM_START
  for (const event of events) {
    const { previous, hash } = event.metadata
    t.equal(previous, end.hash, `revision ${event.revision} follows the one before it`)
    t.match(hash, /^[\w-]{43}$/)
    t.equal(hash, hashOf(event), `revision ${event.revision} has its own hash`)
    t.equal(chainProblem(event, end), undefined)
    end = { revision: event.revision, hash: hash ?? null }
  }
}
