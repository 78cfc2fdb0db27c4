/**
 * Three nodes on one MongoDB whose calls fail, fail after their execution, or are slow; meanwhile nodes are fenced out,
 * stop and start. Every node shows each acknowledged write. The seed is fixed; `SHARED_FAULTS_SEED=7
 * SHARED_FAULTS_STEPS=500 node test/run.ts test/projections/shared-faults.test.ts` tries more.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import t from 'tap'
import { type Random, randomOf } from '../../faults/random.ts'
import { append } from '../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'
import { createProjector } from '../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../src/projections/projector/read-model.ts'
import type { Change, Changes } from '../../src/projections/store/read-store.ts'
import { openSqliteReadStore } from '../../src/projections/store/sqlite/sqlite.ts'
import { aContext, writerOf } from '../stores.ts'
import { until } from '../until.ts'
import { type SharedReadStore, startShared, take } from './shared-nodes.ts'

const SEED = Number(process.env.SHARED_FAULTS_SEED ?? 4)
const STEPS = Number(process.env.SHARED_FAULTS_STEPS ?? 40)
const IDS = ['a', 'b', 'c', 'd']

interface Tally {
  id: string
  count: number
}

const named = (name: string, parts: Pick<Fold<Tally>, 'handles' | 'touches' | 'evolve'>): Fold<Tally> => ({
  collection: { name, indexes: [], arrays: [] },
  version: 1,
  ...parts,
})

const isTaken = ({ type }: { type: string }) => type === 'NumberTaken'
/** Documents that are counted up, and deleted. */
const counted = named('counted', {
  handles: (event) => isTaken(event) || event.type === 'CreationAbandoned',
  touches: ({ type, data }) =>
    type === 'NumberTaken' ? [data.sequence] : type === 'CreationAbandoned' ? [data.key] : [],
  evolve: (document, { type }, id) =>
    type === 'CreationAbandoned' ? undefined : { id, count: (document?.count ?? 0) + 1 },
})
/** Documents that each event begins. */
const begun: Fold<Tally> = {
  ...named('begun', {
    handles: isTaken,
    touches: ({ type, data }) => (type === 'NumberTaken' ? [data.sequence] : []),
    evolve: (_, { revision }, id) => ({ id, count: revision }),
  }),
  begins: isTaken,
}
/** Few events touch it: its checkpoint moves in memory alone. */
const quiet = named('quiet', {
  handles: isTaken,
  touches: ({ type, data }) => (type === 'NumberTaken' && data.sequence === 'd' ? ['d'] : []),
  evolve: (document, _, id) => ({ id, count: (document?.count ?? 0) + 1 }),
})
const FOLDS = [counted, begun, quiet]

const away = () => new StoreUnavailable('away')

/** Makes one in `faults.oneIn` calls fail. */
function troubled(random: Random, faults: { oneIn: number }) {
  async function call<T>(run: () => Promise<T>, some: () => Promise<unknown> = run): Promise<T> {
    if (faults.oneIn === 0 || !random.isOneIn(faults.oneIn)) return run()
    const kind = random.oneOf('error', 'unknown outcome', 'slow')
    if (kind === 'slow') await delay(random.between(1, 30))
    if (kind === 'unknown outcome') await some()
    if (kind !== 'slow') throw away()
    return run()
  }
  return (store: SharedReadStore): SharedReadStore => {
    const { shared } = store
    async function apply(changes: Changes, checkpoints: Parameters<SharedReadStore['apply']>[1]) {
      const all: Change[] = []
      if (!(Symbol.asyncIterator in changes)) all.push(...changes)
      else for await (const list of changes) all.push(...list)
      const part = all.slice(0, random.between(0, all.length))
      await call(
        () => store.apply(all, checkpoints),
        () => store.apply(part, new Map()),
      )
    }
    return {
      ...store,
      apply,
      getMany: (...args) => call(() => store.getMany(...args)),
      checkpoint: (name) => call(() => store.checkpoint(name)),
      checkpoints: (names) => call(() => store.checkpoints(names)),
      moveCheckpoint: (...args) => call(() => store.moveCheckpoint(...args)),
      shared: {
        read: (names) => call(() => shared.read(names)),
        take: (...args) => call(() => shared.take(...args)),
        move: (...args) => call(() => shared.move(...args)),
        request: (...args) => call(() => shared.request(...args)),
        remove: (...args) => call(() => shared.remove(...args)),
        release: (...args) => call(() => shared.release(...args)),
      },
    }
  }
}

t.test(
  `every node shows each acknowledged write, whatever calls of the store fail (seed ${SEED})`,
  async (t) => {
    const { dir, events, gone, startNode } = await startShared(t)
    const random = randomOf(SEED)
    const faults = { oneIn: 0 }
    const changed = troubled(random, faults)

    /** The documents of a fresh replay. */
    let replays = 0
    async function replayed(position: number): Promise<unknown> {
      replays += 1
      const store = openSqliteReadStore(join(dir, `replay-${replays}.db`))
      const projector = createProjector({
        log: pino({ level: 'silent' }),
        events,
        views: store,
        models: FOLDS.map(readModel),
      })
      await projector.start()
      t.equal(await projector.waitFor(position, 60_000), true)
      await projector.stop()
      const stored = await Promise.all(FOLDS.map(({ collection }) => store.find(collection, {})))
      await store.close()
      return { cached: stored, stored }
    }

    const startOne = async () => {
      const begun = faults.oneIn
      faults.oneIn = 0
      const node = await startNode(FOLDS, { changed })
      faults.oneIn = begun
      return node
    }
    type Node = Awaited<ReturnType<typeof startOne>>
    const nodes: Node[] = [await startOne(), await startOne(), await startOne()]
    function pick(): Node {
      const [node] = random.shuffled(nodes)
      if (node === undefined) throw new Error('there are nodes')
      return node
    }

    /** The answers of a node; undefined when it answers 503. */
    async function shown({ projector, views }: Node): Promise<unknown> {
      try {
        await projector.current()
        const cached = await Promise.all(views.map((view) => view.getMany(IDS)))
        const stored = await Promise.all(views.map((view) => view.find({})))
        return { cached, stored }
      } catch (error) {
        if (error instanceof StoreUnavailable) return undefined
        throw error
      }
    }

    const abandoned = (key: string): DomainEvent => ({ type: 'CreationAbandoned', data: { key } })
    const work: Record<string, () => Promise<unknown>> = {
      'takes numbers': () => take(events, random.oneOf('a', ...IDS), random.oneOf(1, 1, 2, 600)),
      'takes a number': () => take(events, random.oneOf('a', ...IDS)),
      'removes a document': () =>
        append(
          writerOf(events),
          aContext(),
          'issue-1.1',
          'abandon',
          [abandoned(random.oneOf('a', ...IDS))],
          'any',
        ),
      async 'is taken for gone'() {
        const { membership } = pick()
        membership.stopped = true
        gone.add(membership.id)
        await take(events, 'a')
        if (random.isOneIn(2)) await delay(random.between(1, 1500))
        membership.id = randomUUID()
        membership.stopped = false
      },
      async 'ends, and another one begins'() {
        const node = pick()
        await node.stop()
        gone.add(node.membership.id)
        nodes.splice(nodes.indexOf(node), 1, await startOne())
      },
      'asks for a model': () =>
        pick()
          .projector.hold(random.oneOf('counted', 'begun', 'quiet'))
          .catch(() => {}),
    }

    for (let step = 1; step <= STEPS; step++) {
      faults.oneIn = random.oneOf(0, 3, 8, 20)
      const what = random.oneOf('takes a number', ...Object.keys(work))
      const label = `step ${step}: a node ${what}, faults one in ${faults.oneIn}`
      await work[what]?.()
      const position = await events.lastPosition()
      const node = pick()
      if (!(await node.projector.waitFor(position, 5000))) continue
      if (random.isOneIn(2)) faults.oneIn = 0
      const expected = await replayed(position)
      for (const node of nodes) {
        const answer = await shown(node)
        if (answer !== undefined) t.same(answer, expected, `node ${nodes.indexOf(node)} after ${label}`)
      }
    }
    faults.oneIn = 0
    const position = await events.lastPosition()
    const expected = await replayed(position)
    for (const node of nodes) {
      t.equal(await node.projector.waitFor(position, 60_000), true)
      await until('the node answers', async () => (await shown(node)) !== undefined)
      t.same(await shown(node), expected)
    }
  },
)
