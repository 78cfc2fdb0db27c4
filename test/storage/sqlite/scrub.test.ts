/** A purge overwrites the remains of rows that moved between pages. */
import { spawnSync } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { openSqlite } from '../../../src/storage/sqlite/sqlite.ts'

const texts = { name: 'texts', indexes: [], arrays: [] }
const put = (i: number, body: string, position: number) =>
  ({ op: 'put', collection: texts, id: `${i}`, position, body: { body } }) as const

t.test('a purge removes all traces of replaced rows', async (t) => {
  const file = join(t.testdir(), 'views.db')
  const store = openSqliteReadStore(file)
  t.teardown(() => store.close())
  await store.prepare([texts])
  const ids = Array.from({ length: 400 }, (_, i) => i)
  await store.apply(
    ids.map((i) => put(i, `SECRET${i} ${'a'.repeat((i * 37) % 900)}`, 1)),
    new Map(),
  )
  // Other rows grow, so rows with secrets move to other pages.
  for (const i of ids.filter((one) => one % 3 === 1)) {
    await store.apply([put(i, `other ${'b'.repeat(1500 + i)}`, 2)], new Map())
  }
  await store.apply(
    ids.map((i) => put(i, `gone ${i}`, 3)),
    new Map(),
  )
  const left = async () => {
    const files = await Promise.all(['', '-wal'].map((end) => readFile(`${file}${end}`)))
    return files.reduce((sum, content) => sum + content.toString('latin1').split('SECRET').length - 1, 0)
  }
  t.ok((await left()) > 0, 'before it, the files have some')
  // It records the current pages.
  const other = openSqlite(file, 'NORMAL')
  t.teardown(() => other.close())
  other.exec('SELECT sum(length(body)) FROM doc_texts')
  await Promise.all([store.purge?.(), store.purge?.()])
  t.equal(await left(), 0)
  t.strictSame(await store.get(texts, '7'), { body: 'gone 7' }, 'the documents are as they were')
  t.equal((await store.range(texts, { limit: 1000 })).length, 400)

  other.exec('UPDATE doc_texts SET position = position + 1')
  t.equal(await left(), 0, 'no other connection brings it back')

  // A connection that believes to be the last one deletes the WAL when it closes.
  const { ino } = await stat(`${file}-wal`)
  const visit = `const db = new (require('node:sqlite').DatabaseSync)(${JSON.stringify(file)})
    db.exec('SELECT count(*) FROM doc_texts')
    db.close()`
  t.equal(spawnSync(process.execPath, ['-e', visit]).status, 0)
  t.equal((await stat(`${file}-wal`)).ino, ino, 'other processes still see that the database is open here')
})
