import { mkdir, readFile, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { sqliteFailure } from '../../../src/storage/sqlite/errors.ts'
import {
  isBroken,
  openSqlite,
  select,
  selectColumn,
  selectTuples,
} from '../../../src/storage/sqlite/sqlite.ts'
import { threadWriter } from '../../../src/storage/sqlite/writer.ts'
import { until } from '../../until.ts'

t.test('a query works again after an error', async (t) => {
  const db = openSqlite(join(t.testdir(), 'file.db'), 'NORMAL')
  t.teardown(() => db.close())
  const sql = `SELECT json_extract(?, '$.a') AS a`
  const [rows, tuples, column] = [
    select<[string], { a: number }>(db, sql),
    selectTuples<[string], [number]>(db, sql),
    selectColumn<[string], number>(db, sql),
  ]
  for (let times = 0; times < 3; times++) {
    for (const query of [rows, tuples, column]) t.throws(() => query.get('{'), /malformed JSON/)
    t.throws(() => rows.all('{'))
    t.throws(() => [...tuples.iterate('{')])
    t.match(rows.get('{"a":1}'), { a: 1 })
    t.match(rows.all('{"a":1}'), [{ a: 1 }])
    t.strictSame(tuples.get('{"a":2}'), [2])
    t.strictSame([...tuples.iterate('{"a":2}')], [[2]])
    t.equal(column.get('{"a":3}'), 3)
    t.strictSame(column.all('{"a":3}'), [3])
  }
})

t.test('a number that is too large for JavaScript is damage', async (t) => {
  const db = openSqlite(join(t.testdir(), 'file.db'), 'NORMAL')
  t.teardown(() => db.close())
  const number = selectColumn<[string], number>(db, 'SELECT CAST(? AS INTEGER)')
  t.equal(number.get('9007199254740991'), Number.MAX_SAFE_INTEGER)
  try {
    t.fail(`read as ${number.get('9007199254740993')}`)
  } catch (error) {
    t.ok(isBroken(error))
  }
})

t.test('a writer whose file could not be opened at first overwrites what it deletes later', async (t) => {
  const file = join(t.testdir(), 'file.db')
  const db = openSqlite(file, 'OFF')
  db.exec('CREATE TABLE texts (text)')
  db.close()
  const thread = threadWriter('log', file, 'OFF')
  t.teardown(() => thread.close())
  const write = (sql: string) => thread.transaction(async (run) => run(sql))

  await mkdir(`${file}-wal`)
  const failure = await write("INSERT INTO texts VALUES ('never')").catch((error: unknown) => error)
  t.equal(sqliteFailure(failure), 'cannot open', 'the reason comes from the thread')
  await rmdir(`${file}-wal`)

  await write("INSERT INTO texts VALUES ('SECRET')")
  await write('DELETE FROM texts')
  await thread.truncate()
  t.notMatch(await readFile(file, 'latin1'), /SECRET|never/)
})

t.test('a WAL that a reader has made large shrinks when the reader is gone', async (t) => {
  const file = join(t.testdir(), 'file.db')
  const db = openSqlite(file, 'OFF')
  t.teardown(() => db.close())
  db.exec('CREATE TABLE texts (text)')
  const write = (bytes: number) => db.prepare('INSERT INTO texts VALUES (zeroblob(?))').run(bytes)
  const thread = threadWriter('log', file, 'OFF')
  t.teardown(() => thread.close())
  const writeInThread = (bytes: number) =>
    thread.transaction(async (run) => run('INSERT INTO texts VALUES (zeroblob(?))', bytes))
  const walBytes = async () => (await stat(`${file}-wal`)).size
  const MIB = 1024 * 1024

  for (const insert of [write, writeInThread]) {
    const reader = openSqlite(file, 'OFF')
    reader.exec('BEGIN; SELECT count(*) FROM texts')
    for (let i = 0; i < 8; i++) await insert(10 * MIB)
    t.ok((await walBytes()) > 80 * MIB)
    reader.close()
    await until('it is small', async () => {
      await insert(1)
      return (await walBytes()) <= 64 * MIB
    })
  }
})
