import { join } from 'node:path'
import t from 'tap'
import { openSqlite, select, selectColumn, selectTuples } from '../src/sqlite.ts'

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
