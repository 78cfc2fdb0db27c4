/** The contract of every read store. The test of each adapter runs this suite. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { Test } from 'tap'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'
import {
  type AnyCollection,
  type Change,
  type Checkpoint,
  type Collection,
  type Filter,
  type FindOptions,
  foundPage,
  LONG_DOCUMENT,
  type ReadStore,
  type Sort,
} from '../../src/projections/store/read-store.ts'

export interface Card {
  /** The name of the document in the tests. */
  key: string
  state?: string | null
  rank?: number | null
  open?: boolean | null
  labels?: string[]
  scores?: number[]
  words?: string[]
  note?: { deep: { text: string } }
}

export const cards: Collection<Card> = {
  name: 'cards',
  indexes: [{ state: 1, rank: -1 }, { key: 1 }],
  arrays: ['labels', 'scores', 'words'],
}

const others: Collection<Card> = { ...cards, name: 'other_cards' }

/** Notes are parts of cards: a card is found by the words of its notes. */
interface Note {
  cardKey: string
  words: string[]
}
const notes: Collection<Note> = { name: 'notes', indexes: [], arrays: ['words'], partOf: 'cardKey' }
const noted: Collection<Card> = {
  name: 'noted_cards',
  indexes: cards.indexes,
  arrays: ['labels'],
  wordsIn: { words: notes },
}

const NONE: ReadonlyMap<string, Checkpoint> = new Map()

export const put = (id: string, body: object, position = 1, collection: AnyCollection = cards): Change => ({
  op: 'put',
  collection,
  id,
  position,
  body,
})

/**
 * Runs the suite. Each call of `open` in one test opens a store on the same data. Each test has its own data.
 */
export function readStoreContract(t: Test, open: (t: Test) => () => Promise<ReadStore> | ReadStore): void {
  /** Opens a store with these documents. Their `key` is their id. */
  async function storeWith(t: Test, documents: readonly Card[] = []): Promise<ReadStore> {
    const store = await open(t)()
    t.teardown(() => store.close())
    await store.prepare([cards, others])
    await store.apply(
      documents.map((document) => put(document.key, document)),
      NONE,
    )
    return store
  }

  async function keys(store: ReadStore, filter: Filter<Card>, options?: FindOptions<Card>): Promise<string> {
    const found = await store.find(cards, filter, options)
    return found.map(({ key }) => key).join(' ')
  }

  /** Checks that each filter finds these documents, in the order of their ids, and counts them. */
  async function finds(t: Test, store: ReadStore, expected: readonly (readonly [Filter<Card>, string])[]) {
    for (const [filter, wanted] of expected) {
      const name = JSON.stringify(filter)
      t.equal(await keys(store, filter), wanted, name)
      t.equal(await store.count(cards, filter), wanted === '' ? 0 : wanted.split(' ').length, `count ${name}`)
      t.equal((await store.ids(cards, filter)).sort().join(' '), wanted, `ids ${name}`)
    }
  }

  t.test('a document is read back unchanged; a missing one is undefined', async (t) => {
    const store = await storeWith(t)
    const body = {
      key: 'a',
      state: null,
      rank: 1.5,
      open: false,
      labels: ['x'],
      note: { deep: { text: 'é' } },
    }
    await store.apply([put('a', body)], NONE)
    t.strictSame(await store.get(cards, 'a'), body)
    t.equal(await store.get(cards, 'b'), undefined)
    t.equal(await store.get(others, 'a'), undefined, 'another collection has other documents')
  })

  t.test('changes may come list after list; checkpoints are read after the last', async (t) => {
    const store = await storeWith(t)
    const checkpoints = new Map<string, Checkpoint>()
    async function* lists() {
      yield [put('a', { key: 'a', labels: ['x'] }), put('b', { key: 'b' })]
      yield []
      await nextIteration()
      yield [put('a', { key: 'a', labels: ['y'] }, 2)]
      checkpoints.set('reader', { position: 2, version: 1 })
    }
    await store.apply(lists(), checkpoints)
    t.strictSame(await store.get(cards, 'a'), { key: 'a', labels: ['y'] })
    t.equal(await keys(store, { labels: 'x' }), '')
    t.equal(await keys(store, { labels: 'y' }), 'a')
    t.equal(await store.count(cards, {}), 2)
    t.strictSame(await store.checkpoint('reader'), { position: 2, version: 1 })
  })

  t.test('changes that end with an error: the write rejects with it, and writes nothing', async (t) => {
    const store = await storeWith(t, [{ key: 'a' }])
    const error = new StoreUnavailable('no more changes')
    async function* lists() {
      yield [put('a', { key: 'a', rank: 2 }, 2), put('b', { key: 'b' }, 2)]
      await nextIteration()
      throw error
    }
    const moved = new Map([['reader', { position: 2, version: 1 }]])
    await t.rejects(store.apply(lists(), moved), error)
    t.strictSame(await store.find(cards, {}), [{ key: 'a' }])
    t.equal(await store.checkpoint('reader'), undefined)
    await store.apply([put('b', { key: 'b' }, 2)], moved)
    t.equal(await keys(store, {}, { sort: [['key', 1]] }), 'a b', 'the next write is not affected')
  })

  t.test('getMany reads documents with their positions; missing ones are left out', async (t) => {
    const store = await storeWith(t)
    await store.apply([put('a', { key: 'a' }, 7), put('b', { key: 'b' }, 2 ** 52 + 1)], NONE)
    const found = await store.getMany(cards, ['b', 'none', 'a', 'a'])
    t.strictSame(
      found.sort((x, y) => (x.id < y.id ? -1 : 1)),
      [
        { id: 'a', position: 7, body: { key: 'a' } },
        { id: 'b', position: 2 ** 52 + 1, body: { key: 'b' } },
      ],
    )
    t.strictSame(await store.getMany(cards, []), [])
  })

  t.test(
    'a range has the documents after an id with their positions, in the byte order of the ids',
    async (t) => {
      const store = await storeWith(t)
      const ids = ['1.10', '1.9', 'Z', 'a', '\uff5e', '🚀', 'é']
      await store.apply(
        ids.map((id, i) => put(id, { key: id }, i + 1)),
        NONE,
      )
      const sorted = [...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      const snapshot = await store.snapshot()
      t.teardown(() => snapshot.close())
      for (const source of [store, snapshot]) {
        const whole = await source.range(cards, { limit: 100 })
        t.strictSame(
          whole.map(({ id }) => id),
          sorted,
        )
        const [first] = whole
        t.match(first, { id: '1.10', position: 1, body: { key: '1.10' } })
        t.same(JSON.parse(first?.text ?? '{"key":"1.10"}'), first?.body, 'the JSON text, if the store has it')
        const part = await source.range(cards, { after: 'Z', limit: 3 })
        t.strictSame(
          part.map(({ id }) => id),
          sorted.slice(3, 6),
        )
        t.strictSame(await source.range(others, { limit: 3 }), [])
      }
    },
  )

  t.test('an isolated snapshot does not change; another snapshot shows later writes', async (t) => {
    const store = await storeWith(t, [{ key: 'a' }])
    await store.apply([], new Map([['cards', { position: 1, version: 1 }]]))
    const snapshot = await store.snapshot()
    t.teardown(() => snapshot.close())
    await store.apply([put('b', { key: 'b' })], new Map([['cards', { position: 2, version: 1 }]]))
    const { isIsolated } = snapshot
    t.equal((await snapshot.range(cards, { limit: 10 })).length, isIsolated ? 1 : 2)
    t.equal((await snapshot.checkpoint('cards'))?.position, isIsolated ? 1 : 2)
    t.equal(await snapshot.checkpoint('none'), undefined)
  })

  t.test('one read returns more documents than a batch of the store holds', async (t) => {
    const ids = Array.from({ length: 2500 }, (_, i) => String(i).padStart(4, '0'))
    const store = await storeWith(
      t,
      ids.map((key) => ({ key })),
    )
    t.equal((await store.getMany(cards, ids)).length, 2500)
    t.equal(await keys(store, {}), ids.join(' '))
    t.equal(await keys(store, { key: { $in: ids } }), ids.join(' '))
  })

  t.test('a put replaces the whole document', async (t) => {
    const store = await storeWith(t, [{ key: 'a', state: 'open', labels: ['x', 'y'] }])
    await store.apply([put('a', { key: 'a', rank: 2, labels: ['y', 'z'] }, 2)], NONE)
    t.strictSame(await store.get(cards, 'a'), { key: 'a', rank: 2, labels: ['y', 'z'] })
    await finds(t, store, [
      [{ labels: 'x' }, ''],
      [{ labels: 'y' }, 'a'],
      [{ labels: 'z' }, 'a'],
      [{ state: 'open' }, ''],
    ])
  })

  t.test('a deleted document is in no answer; to delete a missing one is not an error', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', labels: ['x'] },
      { key: 'b', labels: ['x'] },
    ])
    await store.apply(
      [
        { op: 'delete', collection: cards, id: 'a' },
        { op: 'delete', collection: cards, id: 'never' },
      ],
      NONE,
    )
    t.equal(await store.get(cards, 'a'), undefined)
    await finds(t, store, [
      [{}, 'b'],
      [{ labels: 'x' }, 'b'],
    ])
  })

  t.test('the changes of one apply are written in their order, in all collections', async (t) => {
    const store = await storeWith(t)
    const gone = (id: string, collection = cards): Change => ({ op: 'delete', collection, id })
    await store.apply(
      [
        put('a', { key: 'first' }, 1),
        put('a', { key: 'second', labels: ['x'] }, 2),
        put('b', { key: 'b' }, 3),
        put('a', { key: 'other' }, 3, others),
        gone('b'),
        gone('c'),
        put('c', { key: 'c' }, 4),
        put('d', { key: 'd', labels: ['x'] }, 5),
        gone('d'),
        put('d', { key: 'again' }, 6),
      ],
      NONE,
    )
    t.equal((await store.get(cards, 'a'))?.key, 'second')
    t.equal((await store.get(others, 'a'))?.key, 'other')
    t.equal(await store.get(cards, 'b'), undefined)
    t.equal((await store.get(cards, 'c'))?.key, 'c')
    t.equal(await keys(store, { labels: 'x' }), 'second')
    t.equal((await store.get(cards, 'd'))?.key, 'again')
  })

  t.test('a put never replaces a document that holds a later position', async (t) => {
    const store = await storeWith(t)
    await store.apply([put('a', { key: 'at 5', labels: ['new'] }, 5), put('z', { key: 'z at 5' }, 5)], NONE)
    await store.apply(
      [
        put('b', { key: 'before' }, 3),
        put('a', { key: 'at 4', labels: ['old'] }, 4),
        put('z', { key: 'z at 1' }, 1),
        put('c', { key: 'after' }, 4),
      ],
      new Map([['reader', { position: 4, version: 1 }]]),
    )
    t.strictSame(await store.get(cards, 'a'), { key: 'at 5', labels: ['new'] })
    t.equal((await store.get(cards, 'z'))?.key, 'z at 5')
    t.equal(await keys(store, { labels: 'old' }), '', 'its array elements are not replaced either')
    t.equal((await store.get(cards, 'b'))?.key, 'before', 'the other changes are written')
    t.equal((await store.get(cards, 'c'))?.key, 'after')
    t.strictSame(await store.checkpoint('reader'), { position: 4, version: 1 })
    await store.apply([put('a', { key: 'again at 5' }, 5)], NONE)
    t.equal((await store.get(cards, 'a'))?.key, 'again at 5', 'a put with the same position is written')
  })

  t.test('equality of strings, numbers and booleans; null also matches a missing field', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', state: 'open', rank: 0, open: true },
      { key: 'b', state: '', rank: 1, open: false },
      { key: 'c', state: null, rank: null, open: null },
      { key: 'd' },
      { key: 'e', state: '1', rank: 2.5 },
    ])
    await finds(t, store, [
      [{}, 'a b c d e'],
      [{ state: 'open' }, 'a'],
      [{ state: 'Open' }, ''],
      [{ state: '' }, 'b'],
      [{ state: '1' }, 'e'],
      [{ rank: 0 }, 'a'],
      [{ rank: 1 }, 'b'],
      [{ rank: 2.5 }, 'e'],
      [{ open: true }, 'a'],
      [{ open: false }, 'b'],
      [{ state: null }, 'c d'],
      [{ rank: null }, 'c d'],
      [{ open: null }, 'c d e'],
      [{ state: 'open', rank: 0, open: true }, 'a'],
      [{ state: 'open', rank: 1 }, ''],
    ])
  })

  t.test('one of several values, with null among them, or of an empty list', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', state: 'open', rank: 1, open: true },
      { key: 'b', state: 'closed', rank: 2, open: false },
      { key: 'c', state: null },
      { key: 'd', rank: 3 },
    ])
    await finds(t, store, [
      [{ state: { $in: ['open', 'closed', 'open'] } }, 'a b'],
      [{ state: { $in: ['open'] } }, 'a'],
      [{ state: { $in: [] } }, ''],
      [{ state: { $in: [null] } }, 'c d'],
      [{ state: { $in: ['open', null] } }, 'a c d'],
      [{ rank: { $in: [1, 3, 99] } }, 'a d'],
      [{ open: { $in: [true, null] } }, 'a c d'],
      [{ open: { $in: [true, false] } }, 'a b'],
      [{ state: { $in: ['open', 'closed'] }, rank: { $in: [2] } }, 'b'],
    ])
  })

  t.test('ranges match only values of their own type, never null or a missing field', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', state: '2024-01-01', rank: -1, open: false },
      { key: 'b', state: '2024-06-01', rank: 0, open: true },
      { key: 'c', state: '2025-01-01', rank: 10.5 },
      { key: 'd', state: null, rank: null, open: null },
      { key: 'e' },
    ])
    await finds(t, store, [
      [{ state: { $gt: '2024-01-01' } }, 'b c'],
      [{ state: { $gte: '2024-01-01' } }, 'a b c'],
      [{ state: { $lt: '2024-06-01' } }, 'a'],
      [{ state: { $lte: '2024-06-01' } }, 'a b'],
      [{ state: { $gt: '2024-01-01', $lt: '2025-01-01' } }, 'b'],
      [{ state: { $gt: '2025-01-01', $lt: '2024-01-01' } }, ''],
      [{ rank: { $gt: -1 } }, 'b c'],
      [{ rank: { $gte: 0, $lte: 10.5 } }, 'b c'],
      [{ rank: { $lt: 0 } }, 'a'],
      [{ rank: { $lte: 0 }, state: { $gt: '2024-02' } }, 'b'],
      [{ open: { $gt: false } }, 'b'],
      [{ open: { $lte: true } }, 'a b'],
      [{ rank: { $gte: null } }, 'd e'],
      [{ rank: { $lt: null } }, ''],
    ])
  })

  t.test('a range on a field with numbers and strings matches only one of the types', async (t) => {
    const mixed: Collection<{ key: string; value: string | number }> = {
      name: 'mixed',
      indexes: [{ value: 1 }],
      arrays: [],
    }
    const store = await storeWith(t)
    await store.prepare([mixed])
    const changes = [5, 50, '5', 'x'].map((value): Change => {
      const key = JSON.stringify(value)
      return { op: 'put', collection: mixed, id: key, position: 1, body: { key, value } }
    })
    await store.apply(changes, NONE)
    const found = async (filter: Filter<{ key: string; value: string | number }>) =>
      (await store.find(mixed, filter, { sort: [['value', 1]] })).map(({ key }) => key).join(' ')
    t.equal(await found({ value: { $gt: 4 } }), '5 50')
    t.equal(await found({ value: { $lt: 'x' } }), '"5"')
    t.equal(await found({ value: { $gte: '' } }), '"5" "x"')
    t.equal(await found({ value: 5 }), '5')
    t.equal(await found({}), '5 50 "5" "x"')
  })

  t.test('array fields: contain one value, any of several, all of several', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', labels: ['bug', 'ui'], scores: [1, 2] },
      { key: 'b', labels: ['bug', 'bug'], scores: [2, 3.5] },
      { key: 'c', labels: [], scores: [] },
      { key: 'd' },
      { key: 'e', labels: ['Bug', '1'], scores: [0] },
    ])
    await finds(t, store, [
      [{ labels: 'bug' }, 'a b'],
      [{ labels: 'bu' }, ''],
      [{ labels: '1' }, 'e'],
      [{ scores: 2 }, 'a b'],
      [{ scores: 3.5 }, 'b'],
      [{ labels: { $in: ['ui', 'Bug', 'none'] } }, 'a e'],
      [{ labels: { $in: [] } }, ''],
      [{ scores: { $in: [0, 1] } }, 'a e'],
      [{ labels: 'bug', scores: 3.5 }, 'b'],
      [{ labels: 'bug', scores: { $in: [1, 3.5] }, key: { $gt: 'a' } }, 'b'],
    ])
  })

  t.test('word search: each word is the beginning of one of the strings, case included', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', words: ['merge', 'branches', 'fast'] },
      { key: 'b', words: ['merging', 'Branches'] },
      { key: 'c', words: ['a.c', 'x%y', 'x_z', '50%', 'c++', '[wip]', '(q)', 'back\\slash', '^top$', '*'] },
      { key: 'd', words: ['abc', 'xay', 'xaz', '5000', 'ccc', 'w', 'q'] },
      { key: 'e', words: [] },
      { key: 'f' },
      { key: 'g', words: ['größe', '日本語', '😀smile', 'end\u{10ffff}', '\ud7ff'] },
    ])
    await finds(t, store, [
      [{ words: { $words: ['merg'] } }, 'a b'],
      [{ words: { $words: ['merge'] } }, 'a'],
      [{ words: { $words: ['erge'] } }, ''],
      [{ words: { $words: ['mer', 'bran'] } }, 'a'],
      [{ words: { $words: ['mer', 'Bran'] } }, 'b'],
      [{ words: { $words: ['m', 'me', 'f'] } }, 'a'],
      [{ words: { $words: ['branches', 'nothing'] } }, ''],
      [{ words: { $words: ['mergers'] } }, ''],
      [{ words: { $words: ['a.'] } }, 'c'],
      [{ words: { $words: ['x%'] } }, 'c'],
      [{ words: { $words: ['x_'] } }, 'c'],
      [{ words: { $words: ['50%'] } }, 'c'],
      [{ words: { $words: ['c+'] } }, 'c'],
      [{ words: { $words: ['[w'] } }, 'c'],
      [{ words: { $words: ['(q)'] } }, 'c'],
      [{ words: { $words: ['back\\'] } }, 'c'],
      [{ words: { $words: ['^top$'] } }, 'c'],
      [{ words: { $words: ['*'] } }, 'c'],
      [{ words: { $words: ['.*'] } }, ''],
      [{ words: { $words: ['\0'] } }, ''],
      [{ words: { $words: ['grö', '日本', '😀'] } }, 'g'],
      [{ words: { $words: ['end\u{10ffff}'] } }, 'g'],
      [{ words: { $words: ['\ud7ff'] } }, 'g'],
      [{ words: { $words: [''] } }, 'a b c d g'],
      [{ words: { $words: [] } }, 'a b c d e f g'],
      [{ words: { $words: ['m'] }, key: { $in: ['b', 'c'] } }, 'b'],
    ])
  })

  t.test(
    'word search in parts: each word begins a word of any part, and filters are those of the whole',
    async (t) => {
      const store = await storeWith(t)
      await store.prepare([noted, notes])
      const card = (key: string, state: string, rank: number) => put(key, { key, state, rank }, 1, noted)
      const note = (id: string, cardKey: string, ...words: string[]) => put(id, { cardKey, words }, 1, notes)
      await store.apply(
        [
          card('a', 'open', 1),
          card('b', 'open', 2),
          card('c', 'closed', 3),
          note('a', 'a', 'merge', 'fails'),
          note('a.1', 'a', 'branches', 'merge'),
          note('b', 'b', 'merge'),
          note('c', 'c', 'branches'),
          note('c.2', 'c', 'merged'),
          note('lost', 'none', 'merge', 'branches'),
        ],
        NONE,
      )
      const find = async (filter: Filter<Card>, options?: FindOptions<Card>) =>
        (await store.find(noted, filter, options)).map(({ key }) => key).join(' ')
      const expect = async (filter: Filter<Card>, wanted: string) => {
        const name = JSON.stringify(filter)
        t.equal(await find(filter), wanted, name)
        const total = wanted === '' ? 0 : wanted.split(' ').length
        t.equal(await store.count(noted, filter), total, `count ${name}`)
        t.equal((await store.ids(noted, filter)).sort().join(' '), wanted, `ids ${name}`)
        const options: FindOptions<Card> = { sort: [['rank', -1]], skip: 1, limit: 1 }
        t.strictSame(
          foundPage(await store.page(noted, filter, options)),
          { rows: (await store.find(noted, filter, options)).map((body) => ({ body })), total },
          `page ${name}`,
        )
      }
      await expect({ words: { $words: ['mer'] } }, 'a b c')
      await expect({ words: { $words: ['mer', 'bran'] } }, 'a c')
      await expect({ words: { $words: ['mer', 'bran'] }, state: 'open' }, 'a')
      await expect({ words: { $words: ['fails', 'bran'] } }, 'a')
      await expect({ words: { $words: ['fails', 'merged'] } }, '')
      await expect({ words: { $words: [] }, state: 'closed' }, 'c')
      t.equal(await find({ words: { $words: ['m'] } }, { sort: [['rank', -1]] }), 'c b a')
      t.equal(await find({ words: { $words: ['m'] } }, { sort: [['rank', -1]], skip: 1, limit: 1 }), 'b')
      await store.apply(
        [
          put('a.1', { cardKey: 'a', words: ['other'] }, 2, notes),
          { op: 'delete', collection: notes, id: 'c' },
        ],
        NONE,
      )
      await expect({ words: { $words: ['bran'] } }, '')
      await expect({ words: { $words: ['other', 'merge'] } }, 'a')
      await t.rejects(async () => store.find(noted, { words: { $in: ['merge'] } }), TypeError)
    },
  )

  t.test('word search in parts: words that very many parts have', async (t) => {
    const store = await storeWith(t)
    await store.prepare([noted, notes])
    const many = Array.from({ length: 300 }, (_, i) => `k${String(i).padStart(3, '0')}`)
    await store.apply(
      many.flatMap((key, i) => [
        put(key, { key, rank: i }, 1, noted),
        put(`${key}.1`, { cardKey: key, words: ['server', 'often'] }, 1, notes),
        put(`${key}.2`, { cardKey: key, words: i === 42 ? ['server', 'rare'] : ['server'] }, 1, notes),
      ]),
      NONE,
    )
    const page = async (words: string[]) =>
      foundPage(
        await store.page(noted, { words: { $words: words } }, { sort: [['rank', -1]], skip: 2, limit: 2 }),
      )
    const frequent = {
      rows: [{ body: { key: 'k297', rank: 297 } }, { body: { key: 'k296', rank: 296 } }],
      total: 300,
    }
    t.strictSame(await page(['server']), frequent)
    t.strictSame(await page(['server', 'often']), frequent)
    t.strictSame(await page(['server', 'rare']), { rows: [], total: 1 })
    t.strictSame(await store.find(noted, { words: { $words: ['server', 'rare'] } }), [
      { key: 'k042', rank: 42 },
    ])
  })

  t.test('a page is what find returns, with the number of all documents that match', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', state: 'open', rank: 1 },
      { key: 'b', state: 'open', rank: 2 },
      { key: 'c', state: 'closed', rank: 3 },
    ])
    const page = async (filter: Filter<Card>, options: FindOptions<Card>) => {
      const found = await store.page(cards, filter, { sort: [['rank', -1]], ...options })
      const { rows, total } = foundPage(found)
      return `${rows.map((row) => ('body' in row ? row.body.key : '?')).join(' ')} of ${total}`
    }
    t.equal(await page({}, {}), 'c b a of 3')
    t.equal(await page({}, { skip: 1, limit: 1 }), 'b of 3')
    t.equal(await page({ state: 'open' }, { limit: 1 }), 'b of 2')
    t.equal(await page({ state: 'open' }, { skip: 5, limit: 1 }), ' of 2')
    t.equal(await page({ state: 'open' }, { limit: 0 }), ' of 2')
    t.equal(await page({ state: 'none' }, { limit: 5 }), ' of 0')
  })

  t.test(
    'a page has a budget of bytes: a long document may be only its id, and keeps its place',
    async (t) => {
      const text = '\u20ac'.repeat(LONG_DOCUMENT)
      const store = await storeWith(t, [
        { key: 'a', rank: 1 },
        { key: 'b', rank: 2, note: { deep: { text } } },
        { key: 'c', rank: 3 },
      ])
      const options: FindOptions<Card> = { sort: [['rank', -1]] }
      const rowsOf = async (of: FindOptions<Card>) =>
        foundPage({ rows: await store.rows(cards, {}, of), total: 0 }).rows
      const { rows, total } = foundPage(await store.page(cards, {}, options))
      t.strictSame(await rowsOf(options), rows)
      t.equal(total, 3)
      const shown = rows.map((row) => ('body' in row ? row.body.key : `only ${row.id}`))
      t.equal(shown.join(), 'c,only b,a')
      t.equal((await store.find(cards, {}, options))[1]?.note?.deep.text, text, 'find gives all of it')
      t.strictSame(await rowsOf({ ...options, skip: 1, limit: 1 }), rows.slice(1, 2))
    },
  )

  t.test('a dropped collection is empty, and is made again by prepare', async (t) => {
    const store = await storeWith(t, [{ key: 'a', labels: ['x'] }])
    await store.drop(cards)
    await store.drop(cards)
    await store.prepare([cards])
    t.strictSame(await store.find(cards, {}), [])
    t.equal(await store.count(cards, { labels: 'x' }), 0)
    await store.apply([put('b', { key: 'b', labels: ['x'] })], NONE)
    t.equal(await keys(store, { labels: 'x' }), 'b')
  })

  t.test('a checkpoint is moved only by its current holder', async (t) => {
    const store = await storeWith(t)
    const at = (position: number, version = 1): Checkpoint => ({ position, version })
    t.equal(await store.moveCheckpoint('x', at(1), at(2)), false, 'there is none')
    t.equal(await store.moveCheckpoint('x', undefined, at(1)), true)
    t.equal(await store.moveCheckpoint('x', undefined, at(9)), false, 'there is one')
    t.equal(await store.moveCheckpoint('x', at(1, 2), at(9)), false, 'another version')
    t.equal(await store.moveCheckpoint('x', at(2), at(9)), false, 'another position')
    t.equal(await store.moveCheckpoint('x', at(1), at(1)), true, 'the same again')
    t.strictSame(await store.checkpoint('x'), at(1))
    const moves = await Promise.all([2, 3, 4, 5].map((n) => store.moveCheckpoint('x', at(1), at(n))))
    t.equal(moves.filter(Boolean).length, 1, 'one of several at the same time')
    t.strictSame(await store.checkpoints(['x', 'none']), new Map([['x', await store.checkpoint('x')]]))
  })

  t.test('a search with very many or very long words gets an answer', async (t) => {
    const words = Array.from({ length: 3000 }, (_, i) => `w${i}`)
    const store = await storeWith(t, [
      { key: 'a', words },
      { key: 'b', words: words.slice(1) },
    ])
    t.equal(await keys(store, { words: { $words: words } }), 'a')
    t.equal(await keys(store, { words: { $words: ['w'.repeat(20_000)] } }), '')
  })

  t.test('sorts ascending, descending and by several fields; ties are sorted by id', async (t) => {
    const store = await storeWith(t, [
      { key: 'e', state: 'b', rank: 2 },
      { key: 'd', state: 'a', rank: 10 },
      { key: 'c', state: 'b', rank: 10 },
      { key: 'b', state: 'a', rank: 2 },
      { key: 'a', state: 'B', rank: -1.5 },
      { key: 'f' },
      { key: 'g', state: null, rank: null },
      { key: 'h', state: 'é', rank: 2 },
    ])
    const expected: [Sort<Card>, string][] = [
      [[], 'a b c d e f g h'],
      [[['rank', 1]], 'f g a b e h c d'],
      [[['rank', -1]], 'c d b e h a f g'],
      [[['state', 1]], 'f g a b d c e h'],
      [[['state', -1]], 'h c e b d a f g'],
      [
        [
          ['state', 1],
          ['rank', -1],
        ],
        'f g a d b c e h',
      ],
      [
        [
          ['rank', -1],
          ['state', -1],
        ],
        'c d h e b a f g',
      ],
      [[['key', -1]], 'h g f e d c b a'],
    ]
    for (const [sort, wanted] of expected)
      t.equal(await keys(store, {}, { sort }), wanted, JSON.stringify(sort))
    t.equal(await keys(store, { rank: 2 }, { sort: [['state', -1]] }), 'h e b')
    t.equal(await keys(store, { open: null }, { sort: [['rank', -1]] }), 'c d b e h a f g')
  })

  t.test('strings sort by code point', async (t) => {
    const words = ['\u{1f600}', '\uff5e', 'z', 'Z', 'é', '10', '9', '']
    const store = await storeWith(t)
    await store.apply(
      words.map((state, i) => put(String(i), { key: String(i), state })),
      NONE,
    )
    const found = await store.find(cards, {}, { sort: [['state', 1]] })
    t.strictSame(
      found.map(({ state }) => state),
      ['', '10', '9', 'Z', 'z', 'é', '\uff5e', '\u{1f600}'],
    )
  })

  t.test('skip and limit select a page of the sorted list', async (t) => {
    const store = await storeWith(
      t,
      [...'abcdefgh'].map((key, rank) => ({ key, rank, labels: rank % 2 === 0 ? ['even'] : [] })),
    )
    const sort: Sort<Card> = [['rank', -1]]
    t.equal(await keys(store, {}, { sort, limit: 3 }), 'h g f')
    t.equal(await keys(store, {}, { sort, skip: 3, limit: 3 }), 'e d c')
    t.equal(await keys(store, {}, { sort, skip: 6, limit: 3 }), 'b a')
    t.equal(await keys(store, {}, { sort, skip: 8, limit: 3 }), '')
    t.equal(await keys(store, {}, { sort, skip: 6 }), 'b a')
    t.equal(await keys(store, {}, { sort, limit: 0 }), '')
    t.equal(await keys(store, { labels: 'even' }, { sort, skip: 1, limit: 2 }), 'e c')
    t.equal(await store.count(cards, { labels: 'even' }), 4)
  })

  t.test('an invalid filter, sort or page is refused with the reason', async (t) => {
    const store = await storeWith(t)
    const find = (filter: object, options: object = {}) => store.find(cards, filter, options)
    const refused = async (asked: Promise<unknown>, reason: RegExp) => {
      await t.rejects(asked, { name: 'TypeError', message: reason })
    }
    await refused(find({ state: { $regex: 'x' } }), /state: \$regex/)
    await refused(find({ state: { $where: 'x' } }), /state: \$where/)
    await refused(find({ state: {} }), /state/)
    await refused(find({ state: undefined }), /state/)
    await refused(find({ state: Number.NaN }), /state/)
    await refused(find({ state: { $in: 'open' } }), /state: needs a list/)
    await refused(find({ state: { $in: [{}] } }), /state: needs a list/)
    await refused(find({ labels: { $gt: 'a' } }), /labels: \$gt/)
    await refused(find({ labels: null }), /labels/)
    await refused(find({ words: { $words: [1] } }), /words/)
    await refused(find({ $or: [] }), /field "\$or"/)
    await refused(find({ "a') OR 1=1 --": 1 }), /field/)
    await refused(find({ 'a.b': 1 }), /field "a\.b"/)
    await refused(find({}, { sort: [['rank; DROP TABLE doc_cards', 1]] }), /field/)
    await refused(find({}, { sort: [['rank', 2]] }), /direction/)
    await refused(find({}, { limit: -1 }), /limit/)
    await refused(find({}, { skip: 0.5 }), /skip/)
    await refused(store.prepare([{ ...cards, name: 'x; DROP TABLE y' }]), /collection/)
    await refused(store.apply([put('a', {}, 1, { ...cards, name: 'a b' })], NONE), /collection/)
    t.equal(await store.count(cards, {}), 0, 'the store still works')
  })

  t.test('ids and values may contain any character', async (t) => {
    const store = await storeWith(t)
    const odd = [
      "Robert'); DROP TABLE doc_cards;--",
      '"quoted" \\ back',
      '$where',
      '{"$gt":""}',
      'ünïcödé 日本語 😀',
      '%_*?[a]',
      'line\nbreak\ttab',
      'a.b.$c',
      ' ',
      '?1 :name @x',
      'x\u0000y',
    ]
    await store.apply(
      odd.map((text) =>
        put(text, { key: text, state: text, labels: [text], words: [text], note: { deep: { text } } }),
      ),
      NONE,
    )
    for (const text of odd) {
      const name = JSON.stringify(text)
      t.equal((await store.get(cards, text))?.note?.deep.text, text, `get ${name}`)
      t.strictSame(
        (await store.getMany(cards, [text])).map(({ id }) => id),
        [text],
        `getMany ${name}`,
      )
      const filters: Filter<Card>[] = [
        { state: text },
        { state: { $in: [text] } },
        { state: { $gte: text, $lte: text } },
        { labels: text },
        { labels: { $in: [text] } },
        { words: { $words: [text] } },
      ]
      for (const filter of filters) t.equal(await keys(store, filter), text, JSON.stringify(filter))
    }
    t.equal(await store.count(cards, {}), odd.length)
  })

  t.test('a document of a megabyte is stored completely', async (t) => {
    const store = await storeWith(t)
    const text = 'mérgelog '.repeat(110_000)
    await store.apply([put('big', { key: 'big', state: 'open', note: { deep: { text } } })], NONE)
    const found = await store.find(cards, { state: 'open' }, { sort: [['rank', 1]] })
    t.equal(found[0]?.note?.deep.text, text)
  })

  t.test('a checkpoint keeps the id of its event, until it moves without one', async (t) => {
    const store = await storeWith(t)
    await store.apply([], new Map([['reader', { position: 12, version: 3, event: '12:a' }]]))
    t.strictSame(await store.checkpoint('reader'), { position: 12, version: 3, event: '12:a' })
    t.strictSame((await store.checkpoints(['reader'])).get('reader')?.event, '12:a')
    await store.apply([], new Map([['reader', { position: 13, version: 3 }]]))
    t.strictSame(await store.checkpoint('reader'), { position: 13, version: 3 })
  })

  t.test('a checkpoint is stored with its changes, and is undefined before that', async (t) => {
    const store = await storeWith(t)
    t.equal(await store.checkpoint('reader'), undefined)
    await store.apply(
      [put('a', { key: 'a' })],
      new Map([
        ['reader', { position: 12, version: 3 }],
        ["o'ther", { position: 2 ** 50, version: 1 }],
      ]),
    )
    t.strictSame(await store.checkpoint('reader'), { position: 12, version: 3 })
    t.strictSame(await store.checkpoint("o'ther"), { position: 2 ** 50, version: 1 })
    await store.apply([], new Map([['reader', { position: 13, version: 3 }]]))
    t.strictSame(await store.checkpoint('reader'), { position: 13, version: 3 }, 'also without changes')
    await store.apply([], NONE)
    t.equal((await store.get(cards, 'a'))?.key, 'a')
  })

  t.test(
    'a cleared collection is empty and can be used again; other collections are not touched',
    async (t) => {
      const store = await storeWith(t, [{ key: 'a', labels: ['x'] }])
      await store.apply(
        [put('a', { key: 'kept' }, 1, others)],
        new Map([['reader', { position: 1, version: 1 }]]),
      )
      await store.clear(cards)
      await finds(t, store, [
        [{}, ''],
        [{ labels: 'x' }, ''],
      ])
      t.equal((await store.get(others, 'a'))?.key, 'kept')
      t.strictSame(await store.checkpoint('reader'), { position: 1, version: 1 })
      await store.apply([put('b', { key: 'b', labels: ['x'] })], NONE)
      t.equal(await keys(store, { labels: 'x' }), 'b')
    },
  )

  t.test('to prepare again changes nothing; a changed declaration updates the indexes', async (t) => {
    const store = await storeWith(t, [
      { key: 'a', rank: 2, labels: ['x'], words: ['one'] },
      { key: 'b', rank: 1 },
    ])
    await store.prepare([cards, others])
    t.equal(await keys(store, { labels: 'x' }), 'a')
    const changed: Collection<Card> = {
      name: 'cards',
      indexes: [{ rank: 1 }, { open: -1, rank: 1 }],
      arrays: ['words'],
    }
    await store.prepare([changed])
    const found = await store.find(changed, { words: 'one' }, { sort: [['rank', 1]] })
    t.strictSame(
      found.map(({ key }) => key),
      ['a'],
    )
    await store.apply([put('c', { key: 'c', labels: ['x'], words: ['one'] }, 2, changed)], NONE)
    await store.prepare([cards])
    t.equal(
      await keys(store, { labels: 'x' }),
      'a c',
      'an array that is declared again finds older documents, too',
    )
  })

  t.test('a store that is opened again has everything', async (t) => {
    const openAgain = open(t)
    const first = await openAgain()
    await first.prepare([cards])
    await first.apply(
      [put('a', { key: 'a', labels: ['x'] }, 9)],
      new Map([['reader', { position: 9, version: 2 }]]),
    )
    await first.close()
    const second = await openAgain()
    t.teardown(() => second.close())
    t.strictSame(await second.getMany(cards, ['a']), [
      { id: 'a', position: 9, body: { key: 'a', labels: ['x'] } },
    ])
    t.equal(await keys(second, { labels: 'x' }), 'a')
    t.strictSame(await second.checkpoint('reader'), { position: 9, version: 2 })
  })

  t.test('reads are answered while changes are applied, and each sees whole documents', async (t) => {
    const store = await storeWith(t)
    const version = (n: number) =>
      Array.from({ length: 300 }, (_, i) =>
        put(`d${i}`, { key: `d${i}`, rank: n, labels: [`v${n}`], words: [`n${n}`] }, n),
      )
    await store.apply(version(1), NONE)
    let applying = true
    const writes = (async () => {
      for (let n = 2; n <= 6; n++) await store.apply(version(n), NONE)
      applying = false
    })()
    let reads = 0
    while (applying) {
      const found = await store.getMany(cards, ['d0', 'd299'])
      t.ok(found.every(({ position, body }) => body.rank === position && body.labels?.[0] === `v${position}`))
      const all = await store.find(cards, {}, { sort: [['rank', 1]], limit: 300 })
      t.equal(all.length, 300)
      reads += 1
      // An embedded store answers without an iteration of the event loop. Give the writer one.
      await nextIteration()
    }
    await writes
    t.ok(reads > 0)
    t.equal(await store.count(cards, { labels: 'v6' }), 300)
    t.equal(await store.count(cards, { labels: 'v5' }), 0)
  })

  t.test('overlapping applies are all written', async (t) => {
    const store = await storeWith(t)
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        store.apply([put(`p${i}`, { key: `p${i}` }), put('shared', { key: 'shared', rank: i }, i)], NONE),
      ),
    )
    t.equal(await store.count(cards, {}), 21)
    t.equal((await store.get(cards, 'shared'))?.rank, 19, 'the latest position stays')
  })

  t.test('an open store answers a ping; a closed store gives StoreUnavailable', async (t) => {
    const store = await open(t)()
    await store.prepare([cards])
    await store.ping()
    await store.close()
    await store.close()
    const calls: Promise<unknown>[] = [
      store.ping(),
      store.get(cards, 'a'),
      store.getMany(cards, ['a']),
      store.find(cards, {}),
      store.count(cards, {}),
      store.checkpoint('reader'),
      store.prepare([cards]),
      store.clear(cards),
      store.apply([put('a', { key: 'a' })], NONE),
    ]
    await Promise.all(calls.map((call) => t.rejects(call, StoreUnavailable)))
  })
}
