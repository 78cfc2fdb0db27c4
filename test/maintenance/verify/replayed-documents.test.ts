import { join } from 'node:path'
import t, { type Test } from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { createReplayedDocuments } from '../../../src/maintenance/verify/replayed-documents.ts'
import type { Change, Collection } from '../../../src/projections/store/read-store.ts'
import { openSqliteSnapshot } from '../../../src/projections/store/sqlite/snapshot.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { BrokenFile, openSqlite } from '../../../src/storage/sqlite/sqlite.ts'

interface Card {
  title: string
}

const cards: Collection<Card> = { name: 'cards', indexes: [], arrays: [] }

const put = (id: string, title: string, position: number): Change => ({
  op: 'put',
  collection: cards,
  id,
  position,
  body: { title },
})
const remove = (id: string): Change => ({ op: 'delete', collection: cards, id })

/** Replayed documents, with `stored` as the store. */
async function replayedBeside(t: Test, stored: readonly Change[]) {
  const [file, scratchFile] = [join(t.testdir(), 'stored.db'), join(t.testdirName, 'scratch.db')]
  const [store, scratch] = [openSqliteReadStore(file), openSqliteReadStore(scratchFile, 'OFF')]
  for (const each of [store, scratch]) await each.prepare([cards])
  await store.apply(stored, new Map())
  const snapshot = await store.snapshot()
  if (!snapshot.isIsolated) throw new Error('it is isolated')
  t.teardown(async () => {
    await snapshot.close()
    await Promise.all([store.close(), scratch.close()])
  })
  const documents = createReplayedDocuments(scratch, snapshot)
  const places = () => {
    const { settled, kept } = documents.placesOf(cards)
    return { settled: [...settled].sort(), kept: [...kept].sort() }
  }
  const scratched = async () => (await scratch.range(cards, { limit: 10 })).map(({ id }) => id)
  return { documents, places, scratch, scratched, file }
}

t.test(
  'only documents that differ from the stored ones are kept; stored ones are read again when they change',
  async (t) => {
    const { documents, places, scratched } = await replayedBeside(t, [
      put('a', 'last', 3),
      put('b', 'only', 2),
    ])
    t.strictSame(await documents.getMany(cards, ['a', 'b']), [], 'there are no documents before the replay')

    await documents.apply(cards, [put('a', 'first', 1), put('b', 'only', 2), put('c', 'gone', 2)])
    t.strictSame(places(), { settled: ['b'], kept: ['a', 'c'] })
    t.strictSame(await scratched(), ['a', 'c'])
    const found = await documents.getMany(cards, ['a', 'b', 'c', 'd'])
    t.strictSame(found.map(({ id, body }) => `${id} ${body.title}`).sort(), ['a first', 'b only', 'c gone'])

    await documents.apply(cards, [put('a', 'last', 3), remove('c')])
    t.strictSame(places(), { settled: ['a', 'b'], kept: [] })
    t.strictSame(await scratched(), [])

    await documents.apply(cards, [put('b', 'changed', 4), remove('a')])
    t.strictSame(places(), { settled: [], kept: ['b'] })
    t.strictSame(await documents.getMany(cards, ['a', 'b']), [
      { id: 'b', position: 4, body: { title: 'changed' } },
    ])
  },
)

t.test(
  'documents with another position or text differ; another order of fields does not matter',
  async (t) => {
    const { documents, places } = await replayedBeside(t, [
      put('a', 'same', 1),
      put('b', 'same', 1),
      { op: 'put', collection: cards, id: 'c', position: 1, body: { other: 1, title: 'c' } },
      put('d', 'ünïcödé', 1),
    ])
    await documents.apply(cards, [
      put('a', 'same', 2),
      put('b', 'Same', 1),
      { op: 'put', collection: cards, id: 'c', position: 1, body: { title: 'c', other: 1 } },
      put('d', 'ünïcödé', 1),
    ])
    t.strictSame(places(), { settled: ['c', 'd'], kept: ['a', 'b'] })
  },
)

t.test('a document that contains the text of two documents equals neither of them', async (t) => {
  const { file } = await replayedBeside(t, [put('a', 'one', 1), put('b', 'two', 1)])
  const [one, two] = ['{"title":"one"}', '{"title":"two"}']
  const db = openSqlite(file, 'NORMAL')
  db.exec(`UPDATE doc_cards SET body = iif(id = 'a', '${one}${two}', '')`)
  db.close()
  const snapshot = openSqliteSnapshot(file)
  t.teardown(() => snapshot.close())
  const found = await snapshot.getMany(cards, ['a', 'b', 'none'])
  t.strictSame(
    found.map(({ id, text }) => [id, text]),
    [
      ['a', `${one}${two}`],
      ['b', ''],
    ],
  )
})

t.test(
  'when the stored documents are damaged, the replayed ones are kept for the later comparison',
  async (t) => {
    const { file, scratch } = await replayedBeside(t, [put('a', 'one', 1)])
    const snapshot = openSqliteSnapshot(file)
    t.teardown(() => snapshot.close())
    const damaged = { ...snapshot, getMany: () => Promise.reject(new BrokenFile(file, 'a page is torn')) }
    const documents = createReplayedDocuments(scratch, damaged)
    await documents.apply(cards, [put('a', 'one', 1)])
    t.strictSame([...documents.placesOf(cards).kept], ['a'])
    const gone = { ...snapshot, getMany: () => Promise.reject(new StoreUnavailable('it is closed')) }
    const failing = createReplayedDocuments(scratch, gone)
    await t.rejects(failing.apply(cards, [put('a', 'one', 1)]), StoreUnavailable)
  },
)
