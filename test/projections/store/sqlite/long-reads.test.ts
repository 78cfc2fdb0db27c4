import { join } from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { continueAs, scheduleWork } from '../../../../src/concurrency/event-loop.ts'
import { onLimitReached } from '../../../../src/errors/limits.ts'
import { Refused, refuse } from '../../../../src/errors/refusal.ts'
import type { Checkpoint } from '../../../../src/projections/store/read-store.ts'
import { createLongReads } from '../../../../src/projections/store/sqlite/long-reads.ts'
import { openSqliteReadStore } from '../../../../src/projections/store/sqlite/sqlite.ts'
import { createView } from '../../../../src/projections/views/view.ts'
import { ABORT_CHECK, openSqliteReader, type SqliteReader } from '../../../../src/storage/sqlite/reader.ts'
import { openSqlite } from '../../../../src/storage/sqlite/sqlite.ts'
import { cards, put } from '../../read-store-contract.ts'

const NONE: ReadonlyMap<string, Checkpoint> = new Map()

/** A SELECT that never ends. */
const ENDLESS = `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE ${ABORT_CHECK})
  SELECT count(*) FROM numbers`

/** Long reads that wait until the test resolves them, in the order of their start. */
function heldReads() {
  const held: { parameters: readonly unknown[]; go: () => void }[] = []
  const open = (file: string): SqliteReader => {
    const reader = openSqliteReader(file)
    return {
      ...reader,
      async value(sql, parameters, signal) {
        await new Promise<void>((go) => held.push({ parameters, go }))
        return reader.value(sql, parameters, signal)
      },
    }
  }
  return { held, open }
}

/** Runs everything that can run now, threads included. */
async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await nextIteration()
}

/** Sends a read for a client, as a request does. */
const as = <T>(client: string, ask: () => Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => scheduleWork(client, () => void ask().then(resolve, reject)))

/** The same for a client that may disconnect, in an iteration of its own, as requests are. */
async function asLeaving<T>(client: string, ask: () => Promise<T>, gone = new AbortController()): Promise<T> {
  await nextIteration()
  const signal = () => gone.signal
  return new Promise((resolve, reject) => continueAs(client, signal, () => void ask().then(resolve, reject)))
}

/** A store with 200 cards: more than are scanned on the event loop. */
async function largeStore(t: Test) {
  const reads = heldReads()
  const store = openSqliteReadStore(join(t.testdir(), 'views.db'), 'NORMAL', { open: reads.open })
  t.teardown(() => store.close())
  await store.prepare([cards])
  const all = Array.from({ length: 200 }, (_, rank) =>
    put(`c${rank}`, { key: `c${rank}`, rank, state: 'open', open: rank % 2 === 0, words: ['all'] }),
  )
  await store.apply(all, NONE)
  return { store, ...reads }
}

t.test('during a long count, other reads are answered', async (t) => {
  const { store, held } = await largeStore(t)
  const order: string[] = []
  const counting = store.count(cards, { open: true }).then((count) => order.push(`count ${count}`))
  await until(() => held.length === 1)
  order.push(`card ${(await store.get(cards, 'c7'))?.rank}`)
  const newest = await store.find(cards, { state: 'open' }, { sort: [['rank', -1]], limit: 2 })
  order.push(`page ${newest.map(({ rank }) => rank)}`)
  order.push(`few ${(await store.find(cards, { key: 'c5' })).length}`)
  await store.apply([put('c200', { key: 'c200', rank: 200, open: true })], NONE)
  order.push('written')
  t.equal(held.length, 1, 'all of these were short')
  held[0]?.go()
  await counting
  t.strictSame(order, ['card 7', 'page 199,198', 'few 1', 'written', 'count 101'])
})

t.test('every possibly long read can be aborted', async (t) => {
  const asked: string[] = []
  const open = (file: string): SqliteReader => {
    const reader = openSqliteReader(file)
    return {
      ...reader,
      value(sql, ...rest) {
        asked.push(sql)
        return reader.value(sql, ...rest)
      },
    }
  }
  const store = openSqliteReadStore(join(t.testdir(), 'views.db'), 'NORMAL', { allLong: true, open })
  t.teardown(() => store.close())
  await store.prepare([cards])
  await store.apply([put('c1', { key: 'c1', rank: 1, state: 'open', words: ['all'] })], NONE)
  for (const filter of [{ state: 'open' }, { rank: { $gt: 0 } }, { words: { $words: ['al'] } }]) {
    t.equal(await store.count(cards, filter), 1)
    t.equal((await store.find(cards, filter)).length, 1)
    t.equal((await store.rows(cards, filter, { sort: [['rank', -1]], limit: 1 })).length, 1)
    t.strictSame(await store.ids(cards, filter), ['c1'])
  }
  t.equal(asked.length, 12)
  for (const sql of asked) t.ok(sql.includes(ABORT_CHECK), sql)
})

t.test('many reads of one client queue behind each other', async (t) => {
  const { store, held } = await largeStore(t)
  const found: string[] = []
  const many = Array.from({ length: 64 }, (_, rank) =>
    as('many', () => store.count(cards, { rank: { $gt: rank } })).then(() => found.push('many')),
  )
  await until(() => held.length === 1)
  const single = as('single', () => store.count(cards, { words: { $words: ['al'] } })).then(() =>
    found.push('single'),
  )
  await until(() => held.length === 2)
  held[1]?.go()
  await single
  t.strictSame(found, ['single'])
  for (let i = 0; i < 65; i++) {
    await until(() => held.length > i)
    held[i]?.go()
  }
  await Promise.all(many)
  t.equal(held.length, 65)
})

t.test('concurrent callers of a count share it, and a later caller counts again', async (t) => {
  const { store, held } = await largeStore(t)
  const count = (client: string) => as(client, () => store.count(cards, { open: true }))
  const begun = count('a')
  await until(() => held.length === 1)
  const waiting = [count('a'), count('a')]
  await store.apply([put('c200', { key: 'c200', open: true })], NONE)
  held[0]?.go()
  await begun
  await until(() => held.length === 2)
  held[1]?.go()
  t.strictSame(await Promise.all(waiting), [101, 101])
  t.equal(held.length, 2)
})

t.test('a view does not cache a count that began before a change', async (t) => {
  const { store, held } = await largeStore(t)
  const view = createView(store, cards, ({ key }) => key)
  const before = view.count({ open: true })
  await until(() => held.length === 1)
  view.applied([{ collection: cards, id: 'c1' }])
  held[0]?.go()
  await before
  const after = view.count({ open: true })
  await until(() => held.length === 2)
  held[1]?.go()
  t.equal(await after, 100)
  t.equal(await view.count({ open: true }), 100, 'and keeps one that was not')
  t.equal(held.length, 2)
})

/** Long reads of an empty file. */
function emptyFile(t: Test, deadlineMs?: number) {
  const file = join(t.testdir(), 'views.db')
  openSqlite(file, 'NORMAL').close()
  const reads = createLongReads(file, deadlineMs === undefined ? {} : { deadlineMs })
  t.teardown(() => reads.close())
  return reads
}

t.test('a read that takes too long is aborted, and is not retried immediately', async (t) => {
  const reads = emptyFile(t, 50)
  const reached: string[] = []
  t.teardown(onLimitReached((limit) => reached.push(limit)))
  const tooSlow = { name: 'ReadTooSlow', refusal: { refused: 'unprocessable' } }
  await t.rejects(reads.read(ENDLESS, []), tooSlow)
  await t.rejects(reads.read(ENDLESS, []), tooSlow)
  t.strictSame(reached, ['long_read_time'], 'it was tried once')
  t.equal(await reads.read('SELECT ?', [7]), 7)
})

t.test('a read is aborted when its client disconnects, and does not count as too slow', async (t) => {
  const file = join(t.testdir(), 'views.db')
  openSqlite(file, 'NORMAL').close()
  let begun = 0
  const open = (file: string): SqliteReader => {
    const reader = openSqliteReader(file)
    return {
      ...reader,
      value: (...asked) => {
        begun += 1
        return reader.value(...asked)
      },
    }
  }
  const reads = createLongReads(file, { deadlineMs: 600_000, open })
  t.teardown(() => reads.close())
  const reached: string[] = []
  t.teardown(onLimitReached((limit) => reached.push(limit)))
  const reason = new Error('gone')
  for (const round of [1, 2]) {
    const clients = ['a', 'b'].map((name) => ({ name, gone: new AbortController() }))
    const asked = clients.map(({ name, gone }) =>
      asLeaving(name, () => reads.read(`${ENDLESS} WHERE n > ?`, [name]), gone),
    )
    await until(() => begun === 3 * round - 1)
    for (const { gone } of clients) gone.abort(reason)
    await Promise.all(asked.map((one) => t.rejects(one, reason)))
    t.equal(await as('c', () => reads.read('SELECT ?', [round])), round, 'both threads are free')
  }
  t.strictSame(reached, [])
})

t.test('a disconnected client leaves its place in the queue', async (t) => {
  const { store, held } = await largeStore(t)
  let asked = 0
  const count = (rank: number, gone?: AbortController) =>
    asLeaving(
      'a',
      () => {
        asked += 1
        return store.count(cards, { rank: { $gt: rank } })
      },
      gone,
    )
  const first = count(0)
  await until(() => held.length === 1)
  const gone = new AbortController()
  const left = count(1, gone)
  const next = count(2)
  await until(() => asked === 3)
  gone.abort(new Refused(refuse.timedOut('gone')))
  await t.rejects(left, { message: 'gone' })
  await t.rejects(count(3, gone), { message: 'gone' }, 'who is gone already gets no place')
  held[0]?.go()
  t.equal(await first, 199)
  await until(() => held.length === 2)
  held[1]?.go()
  t.equal(await next, 197)
  t.equal(held.length, 2, 'nothing was looked for in vain')
})

t.test('a shared count continues until its last client has left', async (t) => {
  const { store, held } = await largeStore(t)
  const firstOf = (name: string, rank: number) =>
    asLeaving(name, () => store.count(cards, { rank: { $gt: rank } }))
  const [firstOfA, firstOfB] = [firstOf('a', 0), until(() => held.length === 1).then(() => firstOf('b', 1))]
  await until(() => held.length === 2)
  const clients = ['a', 'a', 'b'].map((name) => ({ name, gone: new AbortController() }))
  let asked = 0
  const count = () => {
    asked += 1
    return store.count(cards, { open: true })
  }
  const [one, two, stays] = clients.map(({ name, gone }) => asLeaving(name, count, gone))
  await until(() => asked === clients.length)
  held[0]?.go()
  await firstOfA
  await until(() => held.length === 3)
  for (const { gone } of clients.slice(0, 2)) gone.abort(new Refused(refuse.timedOut('gone')))
  await Promise.all([one, two].map((left) => t.rejects(async () => left, { message: 'gone' })))
  held[2]?.go()
  t.equal(await stays, 100, 'it was begun in the turn of the one that left')
  held[1]?.go()
  await firstOfB
  t.equal(held.length, 3)
})

t.test('a stop aborts running and waiting reads', async (t) => {
  const reads = emptyFile(t)
  const asked = [1, 2, 3].map((n) => reads.read(`${ENDLESS} WHERE n > ?`, [n]))
  const closed = { name: 'StoreUnavailable', message: 'the read models are closed' }
  const ended = asked.map((one) => t.rejects(one, closed))
  await nextIteration()
  await reads.close()
  await Promise.all(ended)
  await t.rejects(reads.read('SELECT 1', []), closed)
})

t.test('a store with an unreadable file reports it, and continues when it can', async (t) => {
  let isThere = false
  const open = (file: string) => {
    if (!isThere) throw new Error('unable to open')
    return openSqliteReader(file)
  }
  const store = openSqliteReadStore(join(t.testdir(), 'views.db'), 'NORMAL', { allLong: true, open })
  t.teardown(() => store.close())
  await store.prepare([cards])
  await t.rejects(store.count(cards, {}), { name: 'StoreUnavailable', message: /unable to open/ })
  isThere = true
  t.equal(await store.count(cards, {}), 0)
})
