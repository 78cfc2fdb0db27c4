import { join } from 'node:path'
import t from 'tap'
import { readFilter, readPage } from '../../../../src/projections/store/filter.ts'
import type {
  AnyCollection,
  Collection,
  Filter,
  FindOptions,
} from '../../../../src/projections/store/read-store.ts'
import type { Bindable, Sql } from '../../../../src/projections/store/sqlite/conditions.ts'
import { matching, type Plan, selectPage } from '../../../../src/projections/store/sqlite/query.ts'
import { isCheap } from '../../../../src/projections/store/sqlite/query-cost.ts'
import { prepareCollection, SCHEMA } from '../../../../src/projections/store/sqlite/schema.ts'
import { READ_MODELS } from '../../../../src/projections/views/views.ts'
import { openSqlite, select } from '../../../../src/storage/sqlite/sqlite.ts'

interface Task {
  id: number
  room: number
  state: string
  author: number
  at: string
  labels: string[]
  words: string[]
}

const tasks: Collection<Task> = {
  name: 'tasks',
  indexes: [
    { room: 1, state: 1, id: -1 },
    { room: 1, id: -1 },
  ],
  arrays: ['labels', 'words'],
}

const NEWEST = [['id', -1]] as const
const MANY = 1_000_000

function given(documents: number) {
  return {
    count: (filter: Filter<Task>) => isCheap(tasks, readFilter(tasks, filter), undefined, documents),
    page: (filter: Filter<Task>, options: FindOptions<Task>) =>
      isCheap(tasks, readFilter(tasks, filter), readPage({ limit: 30, ...options }), documents),
  }
}

t.test('given few documents, everything is short', async (t) => {
  const { count, page } = given(100)
  t.ok(count({ author: 1, at: { $gt: '2020' }, words: { $words: ['a'] } }))
  t.ok(page({ labels: 'bug' }, { sort: [['at', 1]], skip: 1000 }))
})

t.test('given some thousand documents, a count is short when an index covers its filter', async (t) => {
  const { count } = given(20_000)
  t.ok(count({}))
  t.ok(count({ room: 1 }))
  t.ok(count({ state: 'open', room: 1 }), 'in any order')
  t.ok(count({ state: { $in: ['open'] }, room: 1 }), 'one of one')
  t.ok(count({ room: 1, id: { $gt: 5 } }))
  t.notOk(count({ state: 'open' }), 'no index begins with it')
  t.notOk(count({ room: 1, author: 1 }), 'documents must be read')
  t.notOk(count({ room: 1, at: { $gt: '2020' } }))
  t.notOk(count({ room: { $in: [1, 2] } }))
  t.notOk(count({ room: 1, labels: 'bug' }))
  t.notOk(count({ room: 1, words: { $words: ['a'] } }))
})

t.test('given very many documents, every count is long', async (t) => {
  const { count } = given(MANY)
  t.notOk(count({ room: 1, state: 'open' }))
  t.notOk(count({}))
})

t.test('given very many documents, a page is short when it is one range of an index', async (t) => {
  const { page } = given(MANY)
  t.ok(page({ room: 1, state: 'open' }, { sort: NEWEST }))
  t.ok(page({ room: 1 }, { sort: NEWEST, skip: 20_000, limit: 100 }))
  t.ok(page({ room: 1, id: { $lt: 500 } }, { sort: NEWEST }), 'bounds of the sort say where it begins')
  t.ok(page({}, {}), 'by id')
  t.notOk(page({ room: 1 }, { sort: NEWEST, skip: 20_001 }), 'far back')
  t.notOk(page({ room: 1 }, { sort: NEWEST, limit: 101 }), 'a large one')
  t.notOk(isCheap(tasks, [], readPage({}), MANY), 'all')
  t.notOk(page({ room: 1 }, { sort: [['id', 1]] }), 'another direction')
  t.notOk(page({ room: 1 }, {}), 'another sort')
  t.notOk(page({ room: 1, author: 1 }, { sort: NEWEST }), 'another condition')
  t.notOk(page({ room: 1, at: { $gt: '2020' } }, { sort: NEWEST }))
  t.notOk(page({ room: 1, labels: 'bug' }, { sort: NEWEST }))
  t.notOk(page({ room: 1, words: { $words: ['a'] } }, { sort: NEWEST }))
})

const short: Plan = { start: undefined, isLong: false }

t.test('SQLite reads each short query from one range of an index', async (t) => {
  const db = openSqlite(join(t.testdir(), 'views.db'), 'NORMAL')
  t.teardown(() => db.close())
  db.exec(SCHEMA)
  const planOf = ({ text, values }: Sql) =>
    select<Bindable[], { detail: string }>(db, `EXPLAIN QUERY PLAN ${text}`)
      .all(...values)
      .map(({ detail }) => detail)
      .join('; ')
  const collections: AnyCollection[] = READ_MODELS.map(({ collection }) => collection)
  for (const collection of [...collections, tasks]) {
    prepareCollection(db, collection)
    for (const index of collection.indexes) {
      const fields = Object.entries(index)
      for (let equal = 0; equal <= fields.length; equal++) {
        const filter = Object.fromEntries(fields.slice(0, equal).map(([field]) => [field, 1]))
        const sort = fields.slice(equal).map(([field, direction]) => [field, direction ?? 1] as const)
        const bounds = sort.slice(0, 1).map(([field]) => [field, { $gt: 1 }])
        for (const wanted of [filter, { ...filter, ...Object.fromEntries(bounds) }]) {
          const conditions = readFilter(collection, wanted)
          const page = readPage({ sort, limit: 30 })
          t.ok(isCheap(collection, conditions, page, MANY))
          const plan = planOf(selectPage(collection, conditions, page, 'row', short))
          t.match(plan, conditions.length > 0 ? /^SEARCH d USING INDEX/ : /^SCAN d USING INDEX/)
          t.notMatch(plan, /TEMP B-TREE/, `${collection.name} by ${Object.keys(filter)}: ${plan}`)
          const { text, values } = matching(collection, conditions, short)
          const count = planOf({ text: `SELECT count(*) ${text}`, values })
          t.match(count, conditions.length > 0 ? /^SEARCH d USING COVERING INDEX/ : /USING COVERING INDEX/)
        }
      }
    }
  }
})
