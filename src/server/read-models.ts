/** Creates the projector, and the views and caches that read its read models. */
import type { FastifyBaseLogger } from 'fastify'
import { createOpenRequests } from '../auth/open-requests.ts'
import type { Nodes } from '../events/nodes/nodes.ts'
import type { SealedStore } from '../events/sealing/sealed-store.ts'
import type { Position } from '../events/store/event-store.ts'
import type { AroundBatch } from '../projections/projector/batch-writer.ts'
import { createProjector } from '../projections/projector/projector.ts'
import { createRebuild } from '../projections/projector/rebuild.ts'
import type { Touched } from '../projections/store/read-store.ts'
import { createAccountChanges } from '../projections/views/account-changes.ts'
import { createViews, READ_MODELS } from '../projections/views/views.ts'
import { createUpgradeAnswers } from '../upgrade/answers.ts'
import type { openReadStores } from './stores.ts'

interface Sources {
  log: FastifyBaseLogger
  events: SealedStore
  stores: Awaited<ReturnType<typeof openReadStores>>
  nodes: Nodes
  /** The end of the log at the start of this server. */
  beginning: Position
  around: AroundBatch
  /** Aborted when the server stops. */
  signal: AbortSignal
}

export function createReadModels({ log, events, stores, nodes, beginning, around, signal }: Sources) {
  const { generations, readStore, secrets } = stores
  /** Caches of read models, in the order in which they are told of changes. */
  const caches: { applied(touched: readonly Touched[]): void; exchanged(collection: string): void }[] = []
  const applied = (touched: readonly Touched[]) => {
    for (const cache of caches) cache.applied(touched)
  }
  const forget = (collection: string) => {
    for (const cache of caches) cache.exchanged(collection)
  }
  const sharing = { membership: nodes, forget }
  const projector = createProjector({
    ...{ log, events, applied, sharing, around },
    views: readStore,
    models: READ_MODELS,
  })
  const views = createViews(readStore, (model) => projector.stopped().some(({ name }) => name === model))
  const accountChanges = createAccountChanges()
  const openRequests = createOpenRequests({ events, views, accountChanges, projector, secrets })
  const upgrade = createUpgradeAnswers(readStore, projector, beginning, nodes.isMember)
  caches.push(...Object.values(views), openRequests, upgrade)
  generations.onExchanged(forget)
  const rebuilder = createRebuild({ events, generations, projector, exchanged: forget, signal })
  return { projector, views, accountChanges, openRequests, upgrade, rebuilder }
}
