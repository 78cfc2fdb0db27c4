import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { NewEvent } from '../../../src/events/store/event-store.ts'
import {
  type HistoryDocument,
  historyFold,
  isForAdmins,
} from '../../../src/projections/models/history/history.fold.ts'
import type { ReadStore } from '../../../src/projections/store/read-store.ts'
import { createView } from '../../../src/projections/views/view.ts'
import type { HistoryFilter } from '../../../src/queries/history/history-filter.ts'
import { indexedHistory } from '../../../src/queries/history/history-index.ts'
import { openStores } from '../../stores.ts'

const REPO = 1
const NEVER = new AbortController().signal

/** A repository whose history has events of these types, and a view that counts its reads. */
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
    const adminsOnly = isForAdmins(type)
    documents.push({ position, repoId: REPO, type, actor: '', at: 0, adminsOnly, issueWords: false })
  }
  await store.prepare([historyFold.collection])
  await store.apply(
    documents.map((body) => ({
      op: 'put',
      collection: historyFold.collection,
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
  const shown = documents.filter(({ adminsOnly }) => !adminsOnly).map(({ position }) => position)
  return {
    shown,
    asked,
    /** A page for a requester who is not an admin, with an empty cache. */
    async page(
      skip: number,
      limit: number,
      { signal = NEVER, ...filter }: HistoryFilter & { signal?: AbortSignal } = {},
    ) {
      asked.length = 0
      const view = createView(counting, historyFold.collection, ({ position }) => `${position}`)
      const found = indexedHistory({ events, views: { history: view } }, REPO)
      const { events: page, total } = await found.page(
        { ...filter, adminsOnly: false },
        { skip, limit },
        signal,
      )
      return { found: page.map(({ position }) => position), total }
    },
  }
}

const times = (n: number, type: string) => Array.from({ length: n }, () => type)

t.test('a page among thousands of hidden events costs one count and one read of that size', async (t) => {
  const written = [
    'RepositoryCreated',
    'LabelCreated',
    ...times(2000, 'CollaboratorSet'),
    'LabelCreated',
    ...times(2000, 'CollaboratorSet'),
    ...times(500, 'LabelCreated').flatMap((type) => [type, 'CollaboratorRemoved', 'CollaboratorSet']),
    ...times(300, 'LabelCreated'),
    ...times(1000, 'CollaboratorSet'),
  ]
  const { shown, asked, page } = await setUp(t, written)
  t.equal(shown.length, 803)
  for (const limit of [1, 50]) {
    for (const skip of [0, 1, 2, 3, 4, 250, 502, 503, 504, 700, 802]) {
      t.strictSame(
        await page(skip, limit),
        { found: shown.slice(skip, skip + limit), total: 803 },
        `${skip} ${limit}`,
      )
      t.strictSame(asked, [0, limit])
    }
  }
  t.strictSame(await page(803, 50), { found: [], total: 803 })
  t.strictSame(await page(0, 50, { actor: '' }), { found: shown.slice(0, 50), total: 803 }, 'by actor')
  t.strictSame(asked, [0, 50])
  const types = (...names: string[]) => ({ types: new Set(names) })
  t.match(
    await page(0, 50, types('LabelCreated', 'CollaboratorSet')),
    { total: 802 },
    'by a visible and a hidden type',
  )
  t.strictSame(asked, [0, 50])
  t.strictSame(await page(0, 50, types('CollaboratorSet')), { found: [], total: 0 }, 'by a hidden type')
  t.strictSame(asked, [])
})

t.test('consecutive pages contain every visible event once, wherever the hidden events are', async (t) => {
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
  'the search for a page does not block the event loop, and ends when the client disconnects',
  async (t) => {
    const { shown, asked, page } = await setUp(t, times(5000, 'LabelCreated'))
    let turns = 0
    let running = true
    const turn = () => {
      turns += 1
      if (running) setImmediate(turn)
    }
    setImmediate(turn)
    // No index contains times.
    const since = 0
    t.strictSame(await page(4990, 2, { since }), { found: shown.slice(4990, 4992), total: 5000 })
    running = false
    t.ok(turns >= 10, `${turns} turns`)
    t.ok(Math.max(...asked) <= 500, 'no read is larger than a chunk')
    const whole = asked.length
    await page(4990, 2, { since, signal: AbortSignal.abort() })
    t.ok(asked.length < whole / 2, `${asked.length} reads instead of ${whole}`)
  },
)
