import { hash } from 'node:crypto'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import {
  consistencyProof,
  growingTree,
  inclusionProof,
  rootOf,
  verifyConsistency,
  verifyInclusion,
} from '../../../src/domain/transparency/merkle-tree.ts'
import { leafOf } from '../../../src/events/store/chain.ts'
import type { EventStore, RecordedEvent } from '../../../src/events/store/event-store.ts'
import { openLogTree } from '../../../src/projections/installation/log-tree.ts'
import { openMongoReadStore } from '../../../src/projections/store/mongodb/mongodb.ts'
import type { Change, ReadStore } from '../../../src/projections/store/read-store.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { mongoWithLongTimeouts } from '../../doubles/long-timeouts.ts'
import { startMongoDouble } from '../../doubles/mongodb.ts'

const { signal } = new AbortController()
const text = (all: Uint8Array) => Buffer.from(all).toString('hex')

/** An event whose position has a gap before it, as in EventStoreDB. */
function eventAt(index: number, name = 'a'): RecordedEvent {
  return {
    id: `${index}`,
    type: 'NumberTaken',
    data: {},
    stream: `ids-${name}`,
    revision: index,
    position: 100 + 3 * index,
    metadata: {
      actor: null,
      at: '2026-11-27T00:00:00.000Z',
      correlationId: '',
      causationId: '',
      schema: 1,
      hash: hash('sha256', `${name}${index}`, 'base64url'),
    },
  }
}

const eventsOf = (size: number, name?: string) => Array.from({ length: size }, (_, i) => eventAt(i, name))

/** A log whose events a test may change. */
function fakeLog(events: RecordedEvent[]) {
  const log: Pick<EventStore, 'readAll' | 'readPositions'> & { events: RecordedEvent[]; reads: number } = {
    events,
    reads: 0,
    async *readAll({ from = 0, maxCount = Number.POSITIVE_INFINITY } = {}) {
      let left = maxCount
      for (const event of log.events) {
        if (event.position <= from) continue
        if (left === 0) return
        left -= 1
        log.reads += 1
        yield event
      }
    },
    async *readPositions(positions) {
      for (const event of log.events) if (positions.includes(event.position)) yield event
    },
  }
  return log
}

function openStore(test: Pick<typeof t, 'teardown' | 'testdir'>): ReadStore {
  const store = openSqliteReadStore(join(test.testdir({}), 'views.db'), 'OFF')
  test.teardown(() => store.close())
  return store
}

function rootsOf(events: readonly RecordedEvent[]): string[] {
  const tree = growingTree()
  return events.map((event) => {
    tree.add(leafOf(event))
    return text(tree.root())
  })
}

t.test(
  'log tree: roots, inclusion and consistency of a log with gaps, over three levels of tiles',
  async (t) => {
    const events = eventsOf(66_000)
    const log = fakeLog(events.slice(0, 300))
    const tree = openLogTree(openStore(t), log)
    await tree.prepare()
    t.equal(await tree.size(), 0)
    t.equal(await tree.extend(signal), 300)
    log.events = events
    t.equal(await tree.extend(signal), events.length)
    const { reads } = log
    t.equal(await tree.extend(signal), events.length)
    t.equal(log.reads, reads, 'an unchanged log is not read again')

    const roots = rootsOf(events)
    const read = tree.nodeReader()
    const sizes = [1, 2, 255, 256, 257, 300, 511, 512, 65_535, 65_536, 65_537, 65_999, 66_000]
    for (const size of sizes) {
      const root = await rootOf(size, read)
      t.equal(text(root), roots[size - 1], `root of ${size}`)
      for (const index of [0, 1, 255, 256, 299, 65_535, 65_536, size - 1].filter((one) => one < size)) {
        const event = eventAt(index)
        t.equal(await tree.indexOf(event.position), index)
        const hashes = await inclusionProof(index, size, tree.nodeReader())
        t.ok(verifyInclusion(leafOf(event), { index, size, hashes, root }), `${index} in ${size}`)
      }
      for (const from of sizes.filter((one) => one <= size)) {
        const fromRoot = Buffer.from(roots[from - 1] ?? '', 'hex')
        const hashes = await consistencyProof(from, size, tree.nodeReader())
        t.ok(
          verifyConsistency({ from, to: size, hashes, fromRoot, toRoot: root }),
          `${size} starts with ${from}`,
        )
      }
    }
    for (const position of [0, 99, 101, 102, 100 + 3 * events.length]) {
      t.equal(await tree.indexOf(position), undefined, `no event at position ${position}`)
    }
  },
)

t.test(
  'log tree: a crash between any two writes loses nothing, and two nodes may build at once',
  async (t) => {
    const store = openStore(t)
    const events = eventsOf(3000)
    const roots = rootsOf(events)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ grow: fc.nat({ max: 700 }), crash: fc.nat({ max: 8 }) }), { maxLength: 6 }),
        async (steps) => {
          const log = fakeLog([])
          const tree = openLogTree(store, log)
          await tree.prepare()
          for (const { grow, crash } of steps) {
            log.events = events.slice(0, Math.min(log.events.length + grow, events.length))
            let left = crash
            /** Writes only the first changes, as a crash leaves them in MongoDB, where collections have no order. */
            const crashing: ReadStore = {
              ...store,
              async apply(changes, checkpoints) {
                const all: Change[] = []
                if (Symbol.iterator in changes) all.push(...changes)
                all.sort((a, b) => b.collection.name.localeCompare(a.collection.name))
                await store.apply(all.slice(0, left), checkpoints)
                if (left < all.length) throw new Error('killed')
                left -= all.length
              },
              async clear(collection) {
                if (left === 0) throw new Error('killed')
                left -= 1
                await store.clear(collection)
              },
            }
            await openLogTree(crashing, log)
              .extend(signal)
              .catch((error: unknown) => {
                if (!(error instanceof Error && error.message === 'killed')) throw error
              })
            const size = log.events.length
            const both = await Promise.all([tree.extend(signal), openLogTree(store, log).extend(signal)])
            const root = size === 0 ? undefined : text(await rootOf(size, tree.nodeReader()))
            if (both.some((one) => one !== size) || root !== roots[size - 1]) return false
          }
          // The next run has an empty log: the tree is not its tree.
          return true
        },
      ),
      { seed: 47, numRuns: 25 },
    )
  },
)

t.test('log tree: a log that was restored or replaced gets a new tree', async (t) => {
  const log = fakeLog(eventsOf(600))
  const tree = openLogTree(openStore(t), log)
  await tree.prepare()
  await tree.extend(signal)
  for (const events of [eventsOf(400), eventsOf(600, 'b'), [], eventsOf(10)]) {
    log.events = events
    t.equal(await tree.extend(signal), events.length)
    if (events.length === 0) continue
    t.equal(text(await rootOf(events.length, tree.nodeReader())), rootsOf(events).at(-1))
    t.equal(await tree.indexOf(eventAt(500).position), events.length > 500 ? 500 : undefined)
  }
})

t.test('log tree: a crash while the tree of another log is removed leaves nothing of it', async (t) => {
  const store = openStore(t)
  const log = fakeLog(eventsOf(600))
  await openLogTree(store, log).prepare()
  await openLogTree(store, log).extend(signal)
  log.events = eventsOf(300, 'b')
  let cleared = 0
  const crashing: ReadStore = {
    ...store,
    async clear(collection) {
      if (cleared > 0) throw new Error('killed')
      cleared += 1
      await store.clear(collection)
    },
  }
  await t.rejects(openLogTree(crashing, log).extend(signal), { message: 'killed' })
  const tree = openLogTree(store, log)
  t.equal(await tree.extend(signal), 300)
  t.equal(text(await rootOf(300, tree.nodeReader())), rootsOf(log.events).at(-1))
  t.equal(await tree.indexOf(eventAt(500).position), undefined)
})

t.test('log tree: the head is written after the tiles', async (t) => {
  const store = openStore(t)
  const written: string[][] = []
  const watched: ReadStore = {
    ...store,
    async apply(changes, checkpoints) {
      const all: Change[] = []
      if (Symbol.iterator in changes) all.push(...changes)
      written.push([...new Set(all.map(({ collection }) => collection.name))])
      await store.apply(all, checkpoints)
    },
  }
  const tree = openLogTree(watched, fakeLog(eventsOf(300)))
  await tree.prepare()
  await tree.extend(signal)
  t.same(
    written,
    [['log_tiles'], ['log_tree']],
    'MongoDB writes the collections of one call at the same time',
  )
})

t.test('log tree: the same on MongoDB, also of another log', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir({}), 'mongodb.db') })
  t.teardown(() => double.close())
  const store = openMongoReadStore(mongoWithLongTimeouts(double))
  t.teardown(() => store.close())
  const log = fakeLog(eventsOf(600))
  const tree = openLogTree(store, log)
  await tree.prepare()
  for (const events of [log.events, eventsOf(700), eventsOf(300, 'b')]) {
    log.events = events
    t.equal(await tree.extend(signal), events.length)
    t.equal(text(await rootOf(events.length, tree.nodeReader())), rootsOf(events).at(-1))
    t.equal(await tree.indexOf(eventAt(290).position), 290)
    t.equal(await tree.indexOf(eventAt(290).position + 1), undefined)
  }
})

t.test('log tree: lost tiles are built again, and an event without a hash ends the build', async (t) => {
  const store = openStore(t)
  const log = fakeLog(eventsOf(300))
  const tree = openLogTree(store, log)
  await tree.prepare()
  await tree.extend(signal)
  await store.clear({ name: 'log_tiles', indexes: [], arrays: [] })
  t.equal(await tree.extend(signal), 300)
  t.equal(text(await rootOf(300, tree.nodeReader())), rootsOf(log.events).at(-1))

  const event = eventAt(300)
  delete event.metadata.hash
  log.events = [...log.events, event]
  await t.rejects(tree.extend(signal), { message: 'ids-a@300 carries no hash' })
  t.equal(await tree.size(), 300)
})
