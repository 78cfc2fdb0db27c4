import { join } from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ABORT_CHECK, openSqliteReader } from '../../../src/storage/sqlite/reader.ts'
import { openSqlite, selectColumn } from '../../../src/storage/sqlite/sqlite.ts'

/** A SELECT that never ends by itself. */
const ENDLESS = `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE ${ABORT_CHECK})
  SELECT count(*) FROM numbers`
const COUNT = 'SELECT count(*) FROM things'

const never = new AbortController().signal

async function opened(t: Test) {
  const file = join(t.testdir(), 'some.db')
  const db = openSqlite(file, 'NORMAL')
  db.exec('CREATE TABLE things (name TEXT)')
  const reader = openSqliteReader(file)
  t.teardown(async () => {
    await reader.close()
    db.close()
  })
  return { db, reader }
}

t.test('a running read does not block the event loop, and can be aborted', async (t) => {
  const { db, reader } = await opened(t)
  const end = new AbortController()
  const reading = reader.value(ENDLESS, [], end.signal)
  for (let turn = 0; turn < 100; turn++) await nextIteration()
  end.abort(new Error('enough'))
  await t.rejects(reading, { message: 'enough' })

  db.exec("INSERT INTO things VALUES ('a')")
  const isBusy = selectColumn<[], number>(db, 'PRAGMA wal_checkpoint(TRUNCATE)').get()
  t.equal(isBusy, 0, 'it holds no lock any more')
  t.equal(await reader.value(COUNT, [], never), 1, 'and the connection goes on')
})

t.test('a waiting read can be aborted, too', async (t) => {
  const { reader } = await opened(t)
  const end = new AbortController()
  const reading = reader.value(ENDLESS, [], end.signal)
  end.abort(new Error('enough'))
  await t.rejects(reading, { message: 'enough' })
  await t.rejects(reader.value(COUNT, [], end.signal), { message: 'enough' })
})

t.test('each read sees all earlier writes', async (t) => {
  const { db, reader } = await opened(t)
  const insert = db.prepare('INSERT INTO things VALUES (?)')
  for (let n = 1; n <= 3; n++) {
    insert.run(`thing ${n}`)
    t.equal(await reader.value(COUNT, [], never), n)
  }
  t.equal(await reader.value('SELECT name FROM things WHERE name > ?', ['thing 2'], never), 'thing 3')
  t.equal(await reader.value('SELECT name FROM things WHERE name > ?', ['z'], never), undefined)
})

t.test('a failed read does not affect the next one, and writes are refused', async (t) => {
  const { reader } = await opened(t)
  const broken = "SELECT json_extract('{', '$.a')"
  for (let i = 0; i < 2; i++) {
    await t.rejects(reader.value(broken, [], never), { message: /malformed JSON/ })
  }
  await t.rejects(reader.value('DELETE FROM things RETURNING name', [], never), { message: /readonly/ })
  t.equal(await reader.value(COUNT, [], never), 0)
})
