import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import { append } from '../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import type { Membership } from '../../src/events/nodes/nodes.ts'
import type { EventStore } from '../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { sharedGenerations } from '../../src/projections/generations/shared-generations.ts'
import { createProjector } from '../../src/projections/projector/projector.ts'
import { type Fold, readModel } from '../../src/projections/projector/read-model.ts'
import { createRebuild } from '../../src/projections/projector/rebuild.ts'
import { openMongoReadStore } from '../../src/projections/store/mongodb/mongodb.ts'
import { createView } from '../../src/projections/views/view.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'
import { aContext, writerOf } from '../stores.ts'

/** Nodes that share a log and a MongoDB, as projectors alone. */

export type SharedReadStore = ReturnType<typeof openMongoReadStore>

interface NodeOptions {
  /** The log as the node has it. */
  events?: EventStore
  /** The store as the node has it. */
  changed?: (store: SharedReadStore) => SharedReadStore
  /** Lifetime of generations without a writer, in milliseconds. */
  unheldMs?: number
}

const log = pino({ level: 'silent' })

const taken = (sequence: string): DomainEvent => ({ type: 'NumberTaken', data: { sequence } })
export const take = (events: EventStore, sequence: string, times = 1) =>
  append(
    writerOf(events),
    aContext(),
    `numbers-${sequence}`,
    'take',
    Array(times).fill(taken(sequence)),
    'any',
  )

/** The test decides which nodes are alive. */
function cluster() {
  const gone = new Set<string>()
  return {
    gone,
    join(): Membership & { id: string; stopped: boolean } {
      const node = {
        id: randomUUID(),
        stopped: false,
        self: () => ({ id: node.id, name: 'a node' }),
        isMember: () => !node.stopped && !gone.has(node.id),
        isGone: async (id: string) => gone.has(id),
      }
      return node
    },
  }
}

export async function startShared(t: Test) {
  const dir = t.testdir()
  const double = await startMongoDouble({ port: 0, file: join(dir, 'mongodb.db') })
  const events = openSqliteEventStore(join(dir, 'events.db'))
  const { gone, join: joinCluster } = cluster()
  t.teardown(async () => {
    await events.close()
    await double.close()
  })

  async function startNode<D extends { id: string }>(
    folds: readonly Fold<D>[],
    { events: own = events, changed = (store) => store, unheldMs = 0 }: NodeOptions = {},
  ) {
    const store = changed(openMongoReadStore(double.url))
    const membership = joinCluster()
    const versions = new Map(folds.map(({ collection, version }) => [collection.name, version]))
    const generations = sharedGenerations(store, store.shared, versions, membership, unheldMs)
    const views = folds.map(({ collection }) => createView(generations.current, collection, ({ id }) => id))
    const models = folds.map(readModel)
    const forget = (collection: string) => {
      for (const view of views) view.exchanged(collection)
    }
    generations.onExchanged(forget)
    const projector = createProjector({
      log,
      events: own,
      views: generations.current,
      models,
      applied: (touched) => {
        for (const view of views) view.applied(touched)
      },
      sharing: { membership, forget },
    })
    const stopping = new AbortController()
    const { signal } = stopping
    const rebuilding = { events, generations, projector, exchanged: forget, signal, graceMs: 0 }
    let isClosed = false
    async function stop() {
      if (isClosed) return
      isClosed = true
      stopping.abort()
      await projector.stop()
      await store.close()
    }
    t.teardown(stop)
    await projector.start()
    return { projector, generations, membership, views, models, ...createRebuild(rebuilding), stop }
  }

  return { dir, events, double, gone, startNode }
}
