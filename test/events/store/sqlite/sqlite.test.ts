import { getEventListeners } from 'node:events'
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { WrongExpectedRevision } from '../../../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../../../src/events/store/sqlite/sqlite.ts'
import { openSqlite } from '../../../../src/storage/sqlite/sqlite.ts'
import { all, eventStoreContract, newEvent, newStream } from '../../event-store-contract.ts'

eventStoreContract(t, async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  return { store, reopen: async () => openSqliteEventStore(file) }
})

t.test('a subscription of a new log leaves out unwanted types', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const before = openSqliteEventStore(file)
  const stream = newStream()
  const wanted = { ...newEvent(), type: 'Wanted' }
  await before.append(stream, [newEvent(), wanted, newEvent()], 'no-stream')
  await before.close()
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  const abort = new AbortController()
  const ids: string[] = []
  const passed = (position: number) => {
    t.equal(position, 3)
    abort.abort()
  }
  const unwanted = new Set([newEvent().type])
  for await (const batch of store.subscribe({ after: 0, signal: abort.signal, unwanted, passed }))
    ids.push(...batch.map(({ id }) => id))
  t.strictSame(ids, [wanted.id])
})

t.test('an id that exists elsewhere in the stream fails its whole append, but no other append', async (t) => {
  const store = openSqliteEventStore(join(t.testdir(), 'events.db'))
  t.teardown(() => store.close())
  const [stream, other] = [newStream(), newStream()]
  const old = newEvent()
  await store.append(stream, [old, newEvent()], 'no-stream')
  const twice = newEvent()
  const [first, refused, doubled, last] = await Promise.allSettled([
    store.append(other, [newEvent()], 'no-stream'),
    store.append(stream, [newEvent(), old], 1),
    store.append(newStream(), [twice, twice], 'no-stream'),
    store.append(other, [newEvent()], 0),
  ])
  t.match(refused, { status: 'rejected', reason: WrongExpectedRevision })
  t.match(refused, { reason: { stream, actual: 1 } })
  t.match(doubled, { status: 'rejected', reason: WrongExpectedRevision })
  t.match(doubled, { reason: { actual: null } })
  t.match([first, last], [{ status: 'fulfilled' }, { status: 'fulfilled' }])
  t.equal((await all(store.readStream(stream))).length, 2)
  t.equal((await all(store.readStream(other))).length, 2)
})

t.test('an event with a damaged type reaches a subscription to other types', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  await store.append(newStream(), [newEvent(), newEvent(), newEvent()], 'no-stream')
  await store.close()
  const db = openSqlite(file, 'FULL')
  t.teardown(() => db.close())
  for (const damaged of [`CAST(x'ff41' AS TEXT)`, `x'41'`]) {
    db.exec(`UPDATE events SET type = ${damaged} WHERE position = 2`)
    const reopened = openSqliteEventStore(file)
    const unwanted = new Set([newEvent().type])
    const signal = AbortSignal.timeout(60_000)
    await t.rejects(
      all(reopened.subscribe({ after: 0, signal, unwanted })),
      { name: 'BrokenEvent', position: 2 },
      damaged,
    )
    await reopened.close()
  }
})

t.test('a temporarily unreadable disk is not damage, and the log continues afterwards', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  const stream = newStream()
  await store.append(stream, [newEvent()], 'no-stream')
  t.equal((await all(store.readStream(stream))).length, 1)
  // Another connection writes, so that this one has to read the file again, which lacks its beginning for a while.
  const other = openSqlite(file, 'FULL')
  other.exec('CREATE TABLE another (one INTEGER); DROP TABLE another; PRAGMA wal_checkpoint(TRUNCATE)')
  const bytes = openSync(file, 'r+')
  const beginning = Buffer.alloc(100)
  readSync(bytes, beginning, 0, 100, 0)
  writeSync(bytes, Buffer.alloc(100), 0, 100, 0)
  const unavailable = { name: 'StoreUnavailable' }
  await t.rejects(all(store.readStream(stream)), unavailable)
  await t.rejects(store.append(stream, [newEvent()], 'any'), unavailable)
  writeSync(bytes, beginning, 0, 100, 0)
  closeSync(bytes)
  other.close()
  t.equal((await all(store.readStream(stream))).length, 1)
  await store.append(stream, [newEvent()], 0)
  t.equal((await all(store.readStream(stream))).length, 2)
})

t.test('a subscription removes its listener from a longer signal', async (t) => {
  const store = openSqliteEventStore(join(t.testdir(), 'events.db'))
  t.teardown(() => store.close())
  await store.append(newStream(), [newEvent()], 'any')
  const { signal } = new AbortController()
  for await (const _ of store.subscribe({ after: 0, signal })) break
  t.strictSame(getEventListeners(signal, 'abort'), [])
})
