import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { openSqlite } from '../src/sqlite.ts'
import { openSqliteReader } from '../src/sqlite-reader.ts'

/** A SELECT that never ends. */
const ENDLESS = `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
  SELECT count(*) FROM numbers`
const COUNT = 'SELECT count(*) FROM things'

const never = new AbortController().signal

async function opened(t: Test) {
  const file = join(t.testdir(), 'some.db')
  const db = openSqlite(file, 'NORMAL')
  db.exec('CREATE TABLE things (name TEXT)')
  const reader = await openSqliteReader(file)
  t.teardown(() => {
    reader.close()
    db.close()
  })
  return { db, reader }
}

t.test('the event loop goes on while a read is under way, and the read can be ended', async (t) => {
  const { db, reader } = await opened(t)
  const end = new AbortController()
  const reading = reader.value(ENDLESS, [], end.signal)
  for (let turn = 0; turn < 100; turn++) await nextTurn()
  end.abort(new Error('enough'))
  await t.rejects(reading, { message: 'enough' })

  db.exec("INSERT INTO things VALUES ('a')")
  const emptied = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').raw().get()
  t.equal(Array.isArray(emptied) && emptied[0], 0, 'it holds no lock any more')
  t.equal(await reader.value(COUNT, [], never), 1, 'and the connection goes on')
})

t.test('a read that has not begun can be ended, too', async (t) => {
  const { reader } = await opened(t)
  const end = new AbortController()
  const reading = reader.value(ENDLESS, [], end.signal)
  end.abort(new Error('enough'))
  await t.rejects(reading, { message: 'enough' })
  await t.rejects(reader.value(COUNT, [], end.signal), { message: 'enough' })
})

t.test('each read sees what was written before it', async (t) => {
  const { db, reader } = await opened(t)
  const insert = db.prepare('INSERT INTO things VALUES (?)')
  for (let n = 1; n <= 3; n++) {
    insert.run(`thing ${n}`)
    t.equal(await reader.value(COUNT, [], never), n)
  }
  t.equal(await reader.value('SELECT name FROM things WHERE name > ?', ['thing 2'], never), 'thing 3')
  t.equal(await reader.value('SELECT name FROM things WHERE name > ?', ['z'], never), undefined)
})

t.test('a read that failed does not spoil the next one, and nothing can be written', async (t) => {
  const { reader } = await opened(t)
  const broken = "SELECT json_extract('{', '$.a')"
  for (let i = 0; i < 2; i++) {
    await t.rejects(reader.value(broken, [], never), { message: /malformed JSON/ })
  }
  await t.rejects(reader.value('DELETE FROM things RETURNING name', [], never), { message: /readonly/ })
  t.equal(await reader.value(COUNT, [], never), 0)
})

t.test('garbage of a read that was ended does not hold the event loop during the next read', async (t) => {
  const { reader } = await opened(t)
  setFlagsFromString('--expose_gc')
  const collect: () => void = runInNewContext('gc')
  const endless = async (during: () => Promise<void>) => {
    const end = new AbortController()
    const reading = reader.value(ENDLESS, [], end.signal).catch((error: Error) => error.message)
    await during()
    end.abort(new Error('enough'))
    t.equal(await reading, 'enough')
  }
  const turns = async () => {
    for (let turn = 0; turn < 100; turn++) await nextTurn()
  }
  t.notOk(reader.isWorn())
  await endless(turns)
  // When the collector finds the statement of before, the driver waits here for the end of this read.
  await endless(async () => {
    for (let i = 0; i < 3; i++) {
      await turns()
      collect()
    }
    await turns()
  })
  t.ok(reader.isWorn(), 'it keeps what would be garbage, so another one should take its place')
})

t.test('a connection with many statements should be closed', async (t) => {
  const { reader } = await opened(t)
  for (let n = 1; n < 50; n++) t.equal(await reader.value(`SELECT ${n}`, [], never), n)
  t.notOk(reader.isWorn())
  await reader.value('SELECT 50', [], never)
  t.ok(reader.isWorn())
})
