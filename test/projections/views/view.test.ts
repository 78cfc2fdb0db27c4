import t from 'tap'
import type { Collection, Touched } from '../../../src/projections/store/read-store.ts'
import { roughSize } from '../../../src/projections/views/rough-size.ts'
import { createSharedLimit } from '../../../src/projections/views/shared-limit.ts'
import { createView } from '../../../src/projections/views/view.ts'
import { openStores } from '../../stores.ts'

interface Card {
  key: string
  n: number
}
const cards: Collection<Card> = { name: 'cards', indexes: [{ key: 1 }], arrays: [] }

/** A view, and how many documents it has read from the store. */
async function aView(t: Parameters<typeof openStores>[0]) {
  const { views: store } = openStores(t)
  await store.prepare([cards])
  const reads: string[] = []
  const view = createView(
    {
      ...store,
      get(collection, id) {
        reads.push(id)
        return store.get(collection, id)
      },
    },
    cards,
    ({ key }) => key,
  )
  /** Writes a document as the projector does. */
  async function write(position: number, ...bodies: readonly Card[]) {
    const touched = bodies.map((body): Touched => ({ collection: cards, id: body.key, body }))
    await store.apply(
      bodies.map((body) => ({ op: 'put', collection: cards, id: body.key, position, body })),
      new Map(),
    )
    view.applied(touched)
  }
  return { store, view, reads, write }
}

t.test('a document that the projector has just written is not read from the store again', async (t) => {
  const { view, reads, write } = await aView(t)
  await write(1, { key: 'a', n: 1 })
  t.same(await view.get('a'), { key: 'a', n: 1 })
  await write(2, { key: 'a', n: 2 })
  t.same(await view.get('a'), { key: 'a', n: 2 })
  t.same(reads, [])
})

t.test(
  'a document that was deleted, or that another node may have written, is read from the store',
  async (t) => {
    const { store, view, reads, write } = await aView(t)
    await write(1, { key: 'a', n: 1 }, { key: 'b', n: 1 })
    await store.apply(
      [
        { op: 'delete', collection: cards, id: 'a' },
        { op: 'put', collection: cards, id: 'b', position: 3, body: { key: 'b', n: 3 } },
      ],
      new Map(),
    )
    view.applied([
      { collection: cards, id: 'a' },
      { collection: cards, id: 'b' },
    ])
    t.equal(await view.get('a'), undefined)
    t.same(await view.get('b'), { key: 'b', n: 3 })
    t.same(reads, ['a', 'b'])
  },
)

t.test('a large batch is not cached, and evicts older versions', async (t) => {
  const { view, reads, write } = await aView(t)
  await write(1, { key: '7', n: 1 })
  await write(2, ...Array.from({ length: 101 }, (_, i) => ({ key: `${i}`, n: 2 })))
  t.same(await view.get('7'), { key: '7', n: 2 })
  t.same(reads, ['7'])
})

t.test('a row of a list is the same document as before until it changes', async (t) => {
  const { view, write } = await aView(t)
  await write(1, { key: 'a', n: 1 }, { key: 'ä', n: 1 })
  const listed = async () =>
    (await view.rows({}, { limit: 9 })).map((row) => ('body' in row ? row.body : row.id))
  const first = await listed()
  t.same(first, [
    { key: 'a', n: 1 },
    { key: 'ä', n: 1 },
  ])
  await write(2, { key: 'ä', n: 2 })
  const second = await listed()
  t.equal(second[0], first[0], 'it has not changed, and is not read again')
  t.same(second[1], { key: 'ä', n: 2 })
  const { rows } = await view.page({}, { limit: 9 })
  t.same(
    rows.map((row) => 'body' in row && row.body),
    second,
    'a page with its total',
  )
})

t.test('cached empty results are limited, too: by the size of their query', async (t) => {
  const { views: store } = openStores(t)
  await store.prepare([cards])
  let asked = 0
  const counting = {
    ...store,
    ids: async () => {
      asked += 1
      return []
    },
  }
  const view = createView(counting, cards, ({ key }) => key)
  const ask = (i: number) => view.ids({ key: `${i} ${'x'.repeat(8000)}` })
  await ask(0)
  await ask(0)
  t.equal(asked, 1)
  for (let i = 1; i <= 2500; i++) await ask(i)
  await ask(0)
  t.equal(asked, 2502, 'it is forgotten')
})

t.test('all views share one limit: a full cache reduces the others', async (t) => {
  const { views: store } = openStores(t)
  await store.prepare([cards])
  const bodies = ['a', 'b', 'c'].map((key) => ({ key, n: 1 }))
  await store.apply(
    bodies.map((body) => ({ op: 'put', collection: cards, id: body.key, position: 1, body })),
    new Map(),
  )
  const reads: string[] = []
  const counting: typeof store = {
    ...store,
    get(collection, id) {
      reads.push(id)
      return store.get(collection, id)
    },
  }
  const limit = createSharedLimit(3 * roughSize(bodies[0]))
  const aView = () => createView(counting, cards, ({ key }) => key, undefined, limit)
  const [one, two] = [aView(), aView()]
  for (const key of ['a', 'b', 'a', 'b']) await one.get(key)
  t.same(reads, ['a', 'b'])
  for (const key of ['a', 'b', 'a', 'b']) await two.get(key)
  t.same(reads, ['a', 'b', 'a', 'b'], 'the second view keeps its own')
  await one.get('b')
  await one.get('a')
  t.same(reads, ['a', 'b', 'a', 'b', 'a'], 'the first has forgotten its oldest')
})

t.test('text deep inside a document counts towards the limits', async (t) => {
  const text = 'x'.repeat(1000)
  for (const document of [{ text }, { deep: { text } }, { list: [text] }, { list: [{ of: { text } }] }]) {
    const size = roughSize(document)
    t.ok(size > 1000 && size < 1500, `${size}`)
  }
})
