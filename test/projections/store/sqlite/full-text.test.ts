import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { issueTextFold } from '../../../../src/projections/models/issues/issue-texts.fold.ts'
import type {
  AnyCollection,
  Change,
  Checkpoint,
  Collection,
} from '../../../../src/projections/store/read-store.ts'
import { checkSqliteViews } from '../../../../src/projections/store/sqlite/check.ts'
import { SHORT_TEXT } from '../../../../src/projections/store/sqlite/full-text.ts'
import { openSqliteReadStore } from '../../../../src/projections/store/sqlite/sqlite.ts'
import { openSqlite, type Sqlite, selectColumn } from '../../../../src/storage/sqlite/sqlite.ts'
import { put } from '../../read-store-contract.ts'

const NONE: ReadonlyMap<string, Checkpoint> = new Map()

interface Whole {
  key: string
  words?: string[]
}
const texts = issueTextFold.collection
const wholes: Collection<Whole> = {
  name: 'wholes',
  indexes: [{ key: 1 }],
  arrays: [],
  wordsIn: { words: texts },
}

async function emptyStore(t: Test) {
  const file = join(t.testdir(), 'views.db')
  const store = openSqliteReadStore(file)
  t.teardown(() => store.close())
  await store.prepare([wholes, texts])
  const db = openSqlite(file, 'NORMAL')
  t.teardown(() => db.close())
  const found = async (...words: string[]) =>
    (await store.ids(wholes, { words: { $words: words } })).toSorted().join(' ')
  return { store, file, db, found }
}

const whole = (key: string) => put(key, { key }, 1, wholes)
const text = (id: string, issueKey: string, words: string[], position = 1) =>
  put(id, { issueKey, words }, position, texts)

/** Enough words that they are not stored as one text. */
const manyWords = (beginning: string) =>
  Array.from({ length: SHORT_TEXT / 4 }, (_, i) => `${beginning}${i.toString(36)}`)

t.test(
  'after any write, a document is found by the prefixes of all current words of its parts',
  async (t) => {
    const { store, file, found } = await emptyStore(t)
    const keys = Array.from({ length: 130 }, (_, i) => `k${i}`)
    await store.apply(keys.map(whole), NONE)
    const parts = new Map<string, { owner: string; words: string[] }>()
    let position = 1
    const syllable = fc.constantFrom('a', 'be', 'c1', 'dö', '日', 'straße', 'x')
    const word = fc.array(syllable, { minLength: 1, maxLength: 4 }).map((all) => all.join(''))
    const words = fc.oneof(
      { weight: 6, arbitrary: fc.uniqueArray(word, { maxLength: 12 }) },
      { weight: 1, arbitrary: word.map(manyWords) },
    )
    const change = fc.record({
      id: fc.integer({ min: 0, max: 60 }).map((n) => `p${n}`),
      owner: fc.constantFrom(...keys.slice(0, 20)),
      words: fc.option(words, { nil: undefined, freq: 4 }),
    })
    const batch = fc.array(change, { minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(
        batch,
        fc.array(word, { maxLength: 2 }),
        fc.nat({ max: 9 }),
        async (changes, searched, dice) => {
          position += 1
          await store.apply(
            changes.map(({ id, owner, words }) => {
              if (words === undefined) parts.delete(id)
              else parts.set(id, { owner, words })
              return words === undefined
                ? { op: 'delete', collection: texts, id }
                : text(id, owner, words, position)
            }),
            NONE,
          )
          if (dice === 0) await store.purge?.()
          for (const wanted of [searched, searched.map((one) => [...one][0] ?? '')]) {
            const has = (key: string) =>
              wanted.every((begin) =>
                parts
                  .values()
                  .some(({ owner, words }) => owner === key && words.some((one) => one.startsWith(begin))),
              )
            t.equal(await found(...wanted), keys.filter(has).toSorted().join(' '), wanted.join(' '))
          }
        },
      ),
      { numRuns: 150 },
    )
    t.equal(checkSqliteViews(file), undefined)
  },
)

t.test('the written bytes of a further comment do not grow with the comments of its issue', async (t) => {
  const { store, file, db } = await emptyStore(t)
  const words = manyWords('word')
  /** Growth of the file's WAL in bytes, when one comment is added, changed or deleted. */
  async function written(change: Change): Promise<number> {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    await store.apply([change], NONE)
    return statSync(`${file}-wal`).size
  }
  /** The minimum of several: sometimes, the word index merges its segments. */
  async function leastWritten(from: number, own: string): Promise<number> {
    const all: number[] = []
    for (let n = from; n < from + 8; n++)
      all.push(await written(text(`1.1.${n}`, '1.1', [...words, `${own}${n}`])))
    return Math.min(...all)
  }
  const first = await leastWritten(0, 'first')
  for (let n = 8; n < 60; n++) await store.apply([text(`1.1.${n}`, '1.1', [...words, `own${n}`])], NONE)
  const last = await leastWritten(60, 'last')
  t.ok(last < 1.5 * first, `${last} bytes after ${first}`)
})

const tables = (db: Sqlite) =>
  selectColumn<[], string>(db, `SELECT name FROM sqlite_schema WHERE name LIKE '%issue_texts%'`).all()

t.test('a dropped collection of parts leaves no table, and a cleared one no word', async (t) => {
  const { store, db, found } = await emptyStore(t)
  const other: AnyCollection = { ...texts, name: 'other_texts' }
  await store.prepare([other])
  await store.apply([whole('k'), text('k', 'k', ['one']), text('k.1', 'k', manyWords('two'))], NONE)
  t.equal(await found('one', 'two'), 'k')
  await store.clear(texts)
  t.equal(await found('one'), '')
  await store.apply([text('k', 'k', ['three'])], NONE)
  t.equal(await found('three'), 'k')
  await store.drop(texts)
  t.strictSame(tables(db), [])
  await store.prepare([texts])
  t.equal(await found('three'), '')
})

t.test('after a purge, the file has no word of deleted texts', async (t) => {
  const { store, file, found } = await emptyStore(t)
  const secret = (n: number) => `zq${n}secretivejxv`
  const others = Array.from({ length: 300 }, (_, i) => text(`o${i}`, 'k', [`other${i}`, secret(i + 10)]))
  await store.apply([whole('k'), ...others], NONE)
  await store.apply(
    [text('a', 'k', [secret(1), 'kept']), text('b', 'k', [secret(2), ...manyWords('b')])],
    NONE,
  )
  await store.apply([text('c', 'k', [secret(3)])], NONE)
  t.equal(await found(secret(1), secret(2), secret(3)), 'k')
  await store.apply([...others.map(({ id }) => ({ op: 'delete', collection: texts, id }) as const)], NONE)
  for (const id of ['b', 'c']) await store.apply([{ op: 'delete', collection: texts, id }], NONE)
  await store.apply([text('a', 'k', ['kept'], 2)], NONE)
  await store.purge?.()
  // In the index, a word has only the letters that differ from the word before it.
  for (const end of ['secretivejxv', 'retivejxv']) {
    for (const one of [file, `${file}-wal`]) t.notOk(readFileSync(one).includes(end), `${one} has ${end}`)
  }
  t.equal(await found('kept'), 'k')
  t.equal(await found('zq'), '')
  t.equal(checkSqliteViews(file), undefined)
})

t.test('a collection of parts has one array, the words', async (t) => {
  const { store } = await emptyStore(t)
  await t.rejects(store.prepare([{ ...texts, name: 'others', arrays: ['words', 'labels'] }]), {
    message: 'others has parts: their words are one array',
  })
})
