import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { NewEvent } from '../../src/events/event-store.ts'
import { type HistoryDocument, history } from '../../src/projections/history.ts'
import type { ReadStore } from '../../src/projections/read-store.ts'
import { createView } from '../../src/projections/view.ts'
import { indexedHistory } from '../../src/queries/history-index.ts'
import { openStores } from '../stores.ts'

const HIDDEN: ReadonlySet<string> = new Set(['CollaboratorSet', 'CollaboratorRemoved'])
const REPO = 1

/** A repository whose history has events of these types, and a view that counts what it asks its store. */
async function setUp(t: Parameters<typeof openStores>[0], types: readonly string[]) {
  const { events, views: store } = openStores(t)
  const metadata = {
    actor: null,
    at: new Date(0).toISOString(),
    correlationId: 'c',
    causationId: 'c',
    schema: 1,
  }
  const written = types.map(
    (type): NewEvent => ({ id: randomUUID(), type, data: { repoId: REPO }, metadata }),
  )
  await events.append(`repo-${REPO}`, written, 'any')
  const documents: HistoryDocument[] = []
  for await (const { position, type } of events.readAll()) {
    documents.push({ position, repoId: REPO, type, actor: '', at: 0 })
  }
  await store.prepare([history])
  await store.apply(
    documents.map((body) => ({
      op: 'put',
      collection: history,
      id: `${body.position}`,
      position: body.position,
      body,
    })),
    new Map(),
  )
  const asked: number[] = []
  const counting: ReadStore = {
    ...store,
    find(collection, filter, options) {
      asked.push(options?.limit ?? Number.POSITIVE_INFINITY)
      return store.find(collection, filter, options)
    },
    count(collection, filter) {
      asked.push(0)
      return store.count(collection, filter)
    },
  }
  const shown = documents.filter(({ type }) => !HIDDEN.has(type)).map(({ position }) => position)
  return {
    shown,
    asked,
    /** With nothing remembered. */
    async page(skip: number, limit: number, signal = new AbortController().signal) {
      asked.length = 0
      const view = createView(counting, history, ({ position }) => `${position}`)
      const found = indexedHistory({ events, views: { history: view } }, REPO)
      const { events: page, total } = await found.page({ hidden: HIDDEN }, { skip, limit }, signal)
      return { found: page.map(({ position }) => position), total }
    },
  }
}

const times = (n: number, type: string) => Array.from({ length: n }, () => type)

t.test('a page among thousands of hidden events takes a few questions of bounded size', async (t) => {
  const types = [
    'RepositoryCreated',
    'LabelCreated',
    ...times(2000, 'CollaboratorSet'),
    'LabelCreated',
    ...times(2000, 'CollaboratorSet'),
    ...times(500, 'LabelCreated').flatMap((type) => [type, 'CollaboratorRemoved', 'CollaboratorSet']),
    ...times(300, 'LabelCreated'),
    ...times(1000, 'CollaboratorSet'),
  ]
  const { shown, asked, page } = await setUp(t, types)
  t.equal(shown.length, 803)
  for (const limit of [1, 50]) {
    for (const skip of [0, 1, 2, 3, 4, 250, 502, 503, 504, 700, 802]) {
      t.strictSame(
        await page(skip, limit),
        { found: shown.slice(skip, skip + limit), total: 803 },
        `${skip} ${limit}`,
      )
      t.ok(asked.length <= 25, `${asked.length} questions`)
      t.ok(Math.max(...asked) <= 500, 'none for more than a chunk')
    }
  }
  t.strictSame(await page(803, 50), { found: [], total: 803 })
})

t.test('pages that lie side by side have every shown event once, wherever hidden ones stand', async (t) => {
  let seed = 7
  const next = () => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31
    return seed / 2 ** 31
  }
  const types = Array.from({ length: 120 }, () => (next() < 0.5 ? 'CollaboratorSet' : 'LabelCreated'))
  const { shown, page } = await setUp(t, types)
  for (const limit of [1, 3, 7]) {
    const all = []
    for (let skip = 0; skip < shown.length; skip += limit) all.push(...(await page(skip, limit)).found)
    t.strictSame(all, shown, `pages of ${limit}`)
  }
})

t.test(
  'others have a turn while a page is looked for, and a client that has gone ends the search',
  async (t) => {
    const { asked, page } = await setUp(t, [
      'LabelCreated',
      ...times(5000, 'CollaboratorSet'),
      'LabelCreated',
    ])
    let turns = 0
    let running = true
    const turn = () => {
      turns += 1
      if (running) setImmediate(turn)
    }
    setImmediate(turn)
    await page(0, 2)
    running = false
    t.ok(turns >= 10, `${turns} turns`)
    const whole = asked.length
    const gone = new AbortController()
    gone.abort()
    await page(0, 2, gone.signal)
    t.ok(asked.length < whole / 2, `${asked.length} questions instead of ${whole}`)
  },
)
