import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { StoreUnavailable } from '../../../../src/events/store/event-store.ts'
import { issueFold } from '../../../../src/projections/models/issues/issues.fold.ts'
import { readFilter, readPage } from '../../../../src/projections/store/filter.ts'
import type {
  Checkpoint,
  Collection,
  Filter,
  FindOptions,
} from '../../../../src/projections/store/read-store.ts'
import type { Bindable, Sql } from '../../../../src/projections/store/sqlite/conditions.ts'
import {
  countSet,
  type DocumentSet,
  indexedSets,
  matching,
  type Plan,
  selectPage,
  setsOf,
} from '../../../../src/projections/store/sqlite/query.ts'
import { openSqliteReadStore } from '../../../../src/projections/store/sqlite/sqlite.ts'
import { openSqlite, select } from '../../../../src/storage/sqlite/sqlite.ts'
import { program } from '../../../program.ts'
import { type Card, cards, put, readStoreContract } from '../../read-store-contract.ts'

const NONE: ReadonlyMap<string, Checkpoint> = new Map()

readStoreContract(t, (t) => {
  const file = join(t.testdir(), 'views.db')
  return () => openSqliteReadStore(file)
})

t.test('the contract, with all reads outside of the event loop', async (t) => {
  readStoreContract(t, (t) => {
    const file = join(t.testdir(), 'views.db')
    return () => openSqliteReadStore(file, 'NORMAL', { allLong: true })
  })
})

const planFrom = (start?: DocumentSet): Plan => ({ start, isLong: false })

async function emptyStore(t: Test) {
  const file = join(t.testdir(), 'views.db')
  const store = openSqliteReadStore(file)
  t.teardown(() => store.close())
  await store.prepare([cards])
  const db = openSqlite(file, 'NORMAL')
  t.teardown(() => db.close())
  return { store, file, db }
}

t.test('the query plans of SQLite', async (t) => {
  const { db } = await emptyStore(t)

  function planOf({ text, values }: Sql): string {
    const steps = select<Bindable[], { detail: string }>(db, `EXPLAIN QUERY PLAN ${text}`).all(...values)
    return steps.map(({ detail }) => detail).join('\n')
  }
  const page = (filter: Filter<Card>, options: FindOptions<Card>) =>
    planOf(selectPage(cards, readFilter(cards, filter), readPage(options), 'row', planFrom()))
  const count = (filter: Filter<Card>) => {
    const { text, values } = matching(cards, readFilter(cards, filter), planFrom())
    return planOf({ text: `SELECT count(*) ${text}`, values })
  }

  t.test(
    'a page of a filtered and sorted list is read from its index, without a scan or a sort',
    async (t) => {
      const options: FindOptions<Card> = { sort: [['rank', -1]], skip: 30, limit: 30 }
      const byStateAndRank = /^SEARCH d USING INDEX doc_cards__state__rank_desc \(<expr>=\?\)$/
      t.match(page({ state: 'open' }, options), byStateAndRank)
      t.match(page({ state: null }, options), byStateAndRank, 'also for null')
      t.match(page({ state: { $in: ['open'] } }, options), byStateAndRank, 'also for a list of one')
      t.match(page({ state: 'open', open: true }, options), byStateAndRank, 'also with another condition')
      t.match(
        page({ state: 'open', rank: { $gt: 3 } }, options),
        /^SEARCH d USING INDEX doc_cards__state__rank_desc/,
      )
      t.match(
        page({}, { sort: [['key', 1]], limit: 30 }),
        /^SCAN d USING INDEX doc_cards__key$/,
        'also without a filter',
      )
      t.match(page({ key: 'a' }, { limit: 1 }), /^SEARCH d USING INDEX doc_cards__key \(<expr>=\?\)$/)
      t.notMatch(page({ state: 'open' }, options), /TEMP B-TREE/)
    },
  )

  t.test('a count on indexed fields reads its index, without a scan', async (t) => {
    t.match(
      count({ state: 'open' }),
      /^SEARCH d USING COVERING INDEX doc_cards__state__rank_desc \(<expr>=\?\)$/,
    )
  })

  t.test(
    'a page with a common array value walks the index of the sort and tests each document',
    async (t) => {
      const plan = page({ state: 'open', labels: { $in: ['bug'] } }, { sort: [['rank', -1]], limit: 30 })
      t.match(plan, /^SEARCH d USING INDEX doc_cards__state__rank_desc/)
      t.match(plan, /SEARCH a USING PRIMARY KEY \(field=\? AND id=\?\)/)
      t.notMatch(plan, /TEMP B-TREE FOR .*ORDER BY/)
      const words = page({ state: 'open', words: { $words: ['mer'] } }, { sort: [['rank', -1]], limit: 30 })
      t.match(words, /SEARCH a USING PRIMARY KEY \(field=\? AND id=\? AND value>\? AND value<\?\)/)
    },
  )

  t.test('a page with a rare array value starts from the documents that have it', async (t) => {
    const conditions = readFilter(cards, { state: 'open', words: { $words: ['mer'] } })
    const [start] = conditions.flatMap((condition) => setsOf(cards, condition))
    const plan = planOf(
      selectPage(cards, conditions, readPage({ sort: [['rank', -1]], limit: 30 }), 'row', planFrom(start)),
    )
    t.match(
      plan,
      /SEARCH arr_cards USING COVERING INDEX arr_cards__value \(field=\? AND value>\? AND value<\?\)/,
    )
    t.match(plan, /SEARCH d USING INDEX sqlite_autoindex_doc_cards_1 \(id=\?\)/)
  })
})

t.test('the query plans of SQLite for a condition with bounds', async (t) => {
  const { store, db } = await emptyStore(t)
  const { collection } = issueFold
  await store.prepare([collection])
  const planOf = ({ text, values }: Sql) =>
    select<Bindable[], { detail: string }>(db, `EXPLAIN QUERY PLAN ${text}`)
      .all(...values)
      .map(({ detail }) => detail)
      .join('\n')
  const filter = { repoId: 1, isPull: false, state: 'open', updatedAt: { $gte: '2026' } } as const
  const conditions = readFilter(collection, filter)
  const newest = readPage({ sort: [['id', -1]], limit: 30 })

  t.test('a page walks the index of its sort, and does not sort all that another one finds', async (t) => {
    const { text, values } = selectPage(collection, conditions, newest, 'row', planFrom())
    t.match(
      planOf({ text, values }),
      /^SEARCH d USING INDEX doc_issues__repoId__isPull__state__id_desc [^\n]*$/,
    )
    const left = planOf({ text: text.replaceAll('+json_extract', 'json_extract'), values })
    t.match(left, /TEMP B-TREE/, 'SQLite would prefer to sort')
  })

  t.test('a set within the bounds is found by the index that has them after its equal fields', async (t) => {
    const byBounds = /doc_issues__repoId__updatedAt \(<expr>=\? AND <expr>>\?\)/
    const sets = indexedSets(collection, conditions).filter(({ from }) => from.includes('INDEXED BY'))
    t.equal(sets.length, 1)
    for (const hits of sets) {
      t.match(planOf(countSet(hits, 1000)), byBounds)
      t.match(planOf(selectPage(collection, conditions, newest, 'row', planFrom(hits))), byBounds)
    }
  })
})

t.test('common and rare array values give correct results', async (t) => {
  const { store } = await emptyStore(t)
  const changes = Array.from({ length: 1500 }, (_, rank) => {
    const labels = rank % 500 === 0 ? ['all', 'rare'] : ['all']
    return put(`c${rank}`, { key: `c${rank}`, rank, state: 'open', labels, words: ['every', `word${rank}`] })
  })
  await store.apply(changes, NONE)
  const found = async (filter: Filter<Card>) =>
    (await store.find(cards, filter, { sort: [['rank', -1]], limit: 3 })).map(({ rank }) => rank)
  t.strictSame(await found({ labels: 'all', state: 'open' }), [1499, 1498, 1497])
  t.strictSame(await found({ labels: 'rare' }), [1000, 500, 0])
  t.strictSame(await found({ words: { $words: ['ev', 'word12'] } }), [1299, 1298, 1297])
  t.strictSame(
    await found({ words: { $words: ['ev', 'wo'] }, labels: { $in: ['rare', 'none'] } }),
    [1000, 500, 0],
  )
  t.equal(await store.count(cards, { labels: 'all' }), 1500)
  t.equal(await store.count(cards, { words: { $words: ['ev'] }, labels: 'rare' }), 3)
})

t.test('after every prepare, the indexes are the declared ones', async (t) => {
  const { store, db } = await emptyStore(t)
  const indexes = () =>
    select<[], { name: string }>(
      db,
      "SELECT name FROM sqlite_master WHERE tbl_name = 'doc_cards' AND type = 'index' AND sql IS NOT NULL ORDER BY 1",
    )
      .all()
      .map(({ name }) => name)
  t.strictSame(indexes(), ['doc_cards__key', 'doc_cards__state__rank_desc'])
  const changed: Collection<Card> = { ...cards, indexes: [{ key: 1 }, { open: -1 }] }
  await store.prepare([changed])
  t.strictSame(indexes(), ['doc_cards__key', 'doc_cards__open_desc'])
  await store.prepare([changed])
  t.strictSame(indexes(), ['doc_cards__key', 'doc_cards__open_desc'])
})

t.test('an apply is all or nothing', async (t) => {
  const { store, db } = await emptyStore(t)
  await store.apply(
    [put('a', { key: 'before', labels: ['old'] })],
    new Map([['r', { position: 1, version: 1 }]]),
  )
  // FAIL, unlike ABORT, does not undo the earlier writes of the transaction. The store must do it.
  db.exec(`CREATE TRIGGER poison BEFORE INSERT ON doc_cards WHEN new.id = 'poison'
    BEGIN SELECT raise(FAIL, 'the disk is full'); END`)
  const changes = [
    put('a', { key: 'after', labels: ['new'] }, 2),
    put('b', { key: 'b' }, 2),
    put('poison', { key: 'p' }, 2),
    put('c', { key: 'c' }, 2),
  ]
  const moved = new Map([['r', { position: 2, version: 1 }]])
  await t.rejects(store.apply(changes, moved), { name: 'StoreUnavailable', message: /the disk is full/ })
  t.strictSame(await store.find(cards, {}), [{ key: 'before', labels: ['old'] }])
  t.equal(await store.count(cards, { labels: 'new' }), 0)
  t.strictSame(await store.checkpoint('r'), { position: 1, version: 1 })

  db.exec('DROP TRIGGER poison')
  await store.apply(changes, moved)
  t.equal(await store.count(cards, {}), 4, 'the same changes are written when the disk works again')
  t.strictSame(await store.checkpoint('r'), { position: 2, version: 1 })
})

t.test('a document that cannot be JSON is refused before anything is written', async (t) => {
  const { store } = await emptyStore(t)
  await t.rejects(store.apply([put('a', { key: 'a' }), put('b', { key: 1n })], NONE), TypeError)
  t.equal(await store.count(cards, {}), 0)
})

t.test('a collection that was never prepared gives StoreUnavailable', async (t) => {
  const { store } = await emptyStore(t)
  const unknown: Collection<Card> = { ...cards, name: 'unknown' }
  await t.rejects(store.find(unknown, {}), StoreUnavailable)
  await t.rejects(store.apply([put('a', {}, 1, unknown)], NONE), StoreUnavailable)
})

t.test('while another process writes, an apply waits and reads continue', async (t) => {
  const { store, db } = await emptyStore(t)
  db.exec('BEGIN IMMEDIATE')
  let applied = false
  const apply = store.apply([put('a', { key: 'a' })], NONE).then(() => {
    applied = true
  })
  for (let i = 0; i < 50; i++) {
    await nextIteration()
    t.equal(await store.count(cards, {}), 0)
  }
  t.notOk(applied)
  db.exec('COMMIT')
  await apply
  t.equal(await store.count(cards, {}), 1)
})

t.test('reads never see half of an apply, and a large apply lets other work run', async (t) => {
  const { store } = await emptyStore(t)
  const changes = Array.from({ length: 5000 }, (_, i) =>
    put(`c${i}`, { key: `c${i}`, words: ['a', 'b', `c${i}`] }),
  )
  const seen = new Set<number>()
  let done = false
  const apply = store.apply(changes, NONE).then(() => {
    done = true
  })
  let turns = 0
  while (!done) {
    seen.add(await store.count(cards, {}))
    turns += 1
    await nextIteration()
  }
  await apply
  seen.add(await store.count(cards, {}))
  t.strictSame([...seen], [0, 5000])
  t.ok(turns > 3, `${turns} turns`)
})

t.test('a process that is killed while it writes leaves documents that match the checkpoint', async (t) => {
  const file = join(t.testdir(), 'views.db')
  const child = spawn(process.execPath, [program('test/projections/sqlite-writer'), file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let acknowledged = 0
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged = Number(line)
    if (acknowledged === 5) child.kill('SIGKILL')
  }
  await exited
  t.ok(acknowledged >= 5)

  const store = openSqliteReadStore(file)
  t.teardown(() => store.close())
  await store.prepare([cards])
  const position = (await store.checkpoint('reader'))?.position ?? 0
  t.ok(position >= acknowledged, 'nothing acknowledged is lost')
  t.equal(await store.count(cards, { rank: position }), 200)
  t.equal(await store.count(cards, { labels: `v${position}` }), 200)
  t.equal(await store.count(cards, {}), 200)
})
