import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { append } from '../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { type EventStore, StoreUnavailable } from '../../src/events/store/event-store.ts'
import { issueTextFold } from '../../src/projections/models/issues/issue-texts.fold.ts'
import { issueFold } from '../../src/projections/models/issues/issues.fold.ts'
import { createProjector } from '../../src/projections/projector/projector.ts'
import { readModel } from '../../src/projections/projector/read-model.ts'
import { readBatch } from '../../src/projections/projector/readable-events.ts'
import type { Change, Collection, ReadStore, Stored } from '../../src/projections/store/read-store.ts'
import { arrayTable } from '../../src/projections/store/sqlite/tables.ts'
import { createWrites } from '../../src/projections/store/sqlite/writes.ts'
import { openSqlite, selectColumn } from '../../src/storage/sqlite/sqlite.ts'
import { all } from '../events/event-store-contract.ts'
import { aContext, openStores, writerOf } from '../stores.ts'

const MODELS = [readModel(issueFold), readModel(issueTextFold)]

const opened: DomainEvent = {
  type: 'IssueOpened',
  data: {
    repoId: 1,
    index: 1,
    id: 1,
    poster: { id: 1, login: 'alice' },
    title: 'Old words',
    body: 'body',
    labels: [],
    milestone: null,
    assignees: [],
    deadline: null,
  },
}
const retitled: DomainEvent = {
  type: 'TitleChanged',
  data: { repoId: 1, index: 1, oldTitle: 'Old words', title: 'New words' },
}

const BUG = { id: 7, name: 'bug' }
const labelled: DomainEvent = { ...opened, data: { ...opened.data, labels: [BUG] } }
const unlabelled: DomainEvent = {
  type: 'LabelsChanged',
  data: { repoId: 1, index: 1, labels: [], added: [], removed: [BUG] },
}

const write = (events: EventStore, ...changes: DomainEvent[]) =>
  append(writerOf(events), aContext(), 'issue-1.1', 'change', changes, 'any')

const found = (views: ReadStore, ...words: string[]) =>
  views.ids(issueFold.collection, { words: { $words: words } })

function project(t: Test, events: EventStore, views: ReadStore) {
  const projector = createProjector({ log: pino({ level: 'silent' }), events, views, models: MODELS })
  t.teardown(() => projector.stop())
  return projector
}

t.test(
  "a change names the document that it replaces: the fold's input, or none where an event creates",
  async (t) => {
    const { events, views } = openStores(t)
    await write(events, opened)
    await write(events, retitled)
    const { events: recorded } = readBatch(await all(events.readStream('issue-1.1')))
    const model = readModel(issueFold)
    await views.prepare([model.collection])
    const replaced = async (from: number, mayRepeat: boolean) => {
      const { changes } = await model.advance(recorded.slice(from), views, mayRepeat)
      return changes.map((change) => (change.op === 'put' ? change.replaces : 'deleted'))
    }
    t.same(await replaced(0, false), [null], 'an issue that is opened replaces nothing')
    t.same(await replaced(0, true), [undefined], 'unless it may have been opened before')
    const { changes } = await model.advance(recorded.slice(0, 1), views)
    await views.apply(changes, new Map())
    const stored = await views.get(model.collection, '1.1')
    t.match(stored, { title: 'Old words' })
    t.same(await replaced(1, true), [stored])
  },
)

interface Card {
  labels: string[]
}
const cards: Collection<Card> = { name: 'cards', indexes: [], arrays: ['labels'] }

t.test(
  'a put that names the replaced document is written without a read, and changes the same rows',
  async (t) => {
    const file = join(t.testdir(), 'views.db')
    const db = openSqlite(file, 'NORMAL')
    const reads: (readonly string[])[] = []
    const stored = new Map<string, Stored<object>>()
    const writes = createWrites(db, file, 'NORMAL', (_, ids) => {
      reads.push(ids)
      return ids.flatMap((id) => stored.get(id) ?? [])
    })
    t.teardown(async () => {
      await writes.end()
      db.close()
    })
    await writes.prepare([cards])
    const rows = selectColumn<[], string>(
      db,
      `SELECT id || ' ' || value FROM ${arrayTable(cards)} ORDER BY 1`,
    )
    async function put(position: number, body: Card, replaces?: Card | null) {
      const change: Change = { op: 'put', collection: cards, id: 'a', position, body }
      await writes.apply([replaces === undefined ? change : { ...change, replaces }], new Map())
      stored.set('a', { id: 'a', position, body })
    }
    await put(1, { labels: ['x', 'y'] }, null)
    t.same(rows.all(), ['a x', 'a y'])
    await put(2, { labels: ['y', 'z'] }, { labels: ['x', 'y'] })
    t.same(rows.all(), ['a y', 'a z'])
    t.same(reads, [])
    await put(3, { labels: ['z'] })
    t.same(rows.all(), ['a z'])
    t.same(reads, [['a']], 'what is not named is read')
  },
)

t.test('a batch whose answer was lost is retried in other parts, and leaves no older data', async (t) => {
  const { events, views } = openStores(t)
  let toLose = 0
  const forgetful: ReadStore = {
    ...views,
    async apply(changes, checkpoints) {
      await views.apply(changes, toLose > 0 ? new Map() : checkpoints)
      toLose -= 1
      if (toLose >= 0) throw new StoreUnavailable('the answer was lost')
    },
  }
  /** After the loss, the events come one by one. */
  const split: EventStore = {
    ...events,
    async *subscribe(options) {
      for await (const batch of events.subscribe(options)) {
        if (toLose > 0) yield batch
        else for (const event of batch) yield [event]
      }
    },
  }
  const projector = project(t, split, forgetful)
  await projector.start()
  toLose = 1
  const { position } = await write(events, labelled, retitled, unlabelled)
  t.equal(await projector.waitFor(position, 20_000), true)
  t.ok(toLose < 0, 'one was lost')
  t.match(await views.get(issueFold.collection, '1.1'), { title: 'New words', labels: [] })
  t.same(await views.ids(issueFold.collection, { labelIds: BUG.id }), [])
  t.same(await found(views, 'new', 'words'), ['1.1'])
  t.same(await found(views, 'old'), [])
})

t.test('redelivered events after a crash leave each document unchanged', async (t) => {
  const { events, views } = openStores(t)
  const first = project(t, events, views)
  await first.start()
  await write(events, opened)
  const { position } = await write(events, retitled)
  await first.waitFor(position, 5000)
  await first.stop()
  const before = new Map(MODELS.map(({ name, version }) => [name, { position: 0, version }]))
  await views.apply([], before)
  const second = project(t, events, views)
  await second.start()
  t.equal(await second.waitFor(position, 5000), true)
  t.same(await found(views, 'new'), ['1.1'])
  t.same(await found(views, 'old'), [])
})
