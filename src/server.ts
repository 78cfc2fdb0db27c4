/** Builds a whole server from its configuration, starts it, and stops it in order. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { secretCollections } from './commands/users/secrets.ts'
import { ensureSiteAdmin } from './commands/users/site-admin.ts'
import type { Config } from './config.ts'
import type { EventStore } from './events/event-store.ts'
import { openEventStoreDb } from './events/eventstoredb.ts'
import { openSqliteEventStore } from './events/sqlite.ts'
import { openPushJournal } from './git/push-journal.ts'
import { buildApp } from './http/app.ts'
import { createFollower } from './processes/follower.ts'
import { pullHeads } from './processes/pull-heads.ts'
import { finishDeletions, recoverMerges, recoverPushes } from './processes/recovery.ts'
import { accountModel, accounts } from './projections/accounts.ts'
import { branches, branchModel } from './projections/branches.ts'
import { openMongoReadStore } from './projections/mongodb.ts'
import { createProjector } from './projections/projector.ts'
import { pullModel, pulls } from './projections/pulls.ts'
import type { ReadStore } from './projections/read-store.ts'
import { repositories, repositoryModel } from './projections/repositories.ts'
import { openSqliteReadStore } from './projections/sqlite.ts'
import { tokenModel, tokens } from './projections/tokens.ts'
import { createView } from './projections/view.ts'
import type { Services, Views } from './services.ts'

export interface Server {
  url: string
  services: Services
  /** The site admin's password when this start made the account and chose it; shown once. */
  newAdminPassword: string | undefined
  /** Resolves when what a crash left behind has been worked off. */
  recovered: Promise<void>
  /** Lets requests end, then closes everything in order. */
  stop(): Promise<void>
}

const MODELS = [accountModel, tokenModel, repositoryModel, branchModel, pullModel]

function openEvents({ eventStoreUrl, dataDir }: Config): EventStore {
  return eventStoreUrl === undefined
    ? openSqliteEventStore(join(dataDir, 'events.db'))
    : openEventStoreDb(eventStoreUrl)
}

/** The read models, and the secrets: a store of the same kind that is never rebuilt. */
function openReadStores({ mongodbUrl, dataDir }: Config): { readStore: ReadStore; secrets: ReadStore } {
  if (mongodbUrl === undefined) {
    return {
      readStore: openSqliteReadStore(join(dataDir, 'views.db')),
      secrets: openSqliteReadStore(join(dataDir, 'secrets.db'), 'FULL'),
    }
  }
  return {
    readStore: openMongoReadStore(mongodbUrl),
    secrets: openMongoReadStore(mongodbUrl, { database: 'mergelog_secrets' }),
  }
}

/**
 * Starts a server. It answers as soon as it listens; `/healthz` turns 200 when its read models are current
 * and what a crash left behind has been worked off.
 */
export async function startServer(config: Config, log: FastifyBaseLogger): Promise<Server> {
  const gitDir = join(config.dataDir, 'git')
  await mkdir(gitDir, { recursive: true })

  const events = openEvents(config)
  const { readStore, secrets } = openReadStores(config)
  const views: Views = {
    accounts: createView(readStore, accounts),
    tokens: createView(readStore, tokens),
    repositories: createView(readStore, repositories),
    branches: createView(readStore, branches),
    pulls: createView(readStore, pulls),
  }
  const projector = createProjector(log, events, readStore, MODELS, (changes) => {
    for (const view of Object.values(views)) view.applied(changes)
  })

  let publicUrl = config.publicUrl ?? ''
  const services: Services = {
    config,
    log,
    events,
    readStore,
    views,
    secrets,
    projector,
    gitDir,
    pushJournal: await openPushJournal(join(config.dataDir, 'pushes')),
    publicUrl: () => publicUrl,
  }
  const processes = createFollower(log, events, readStore, projector, pullHeads(services))

  await secrets.prepare(secretCollections)
  await projector.start()
  await recoverPushes(services)
  const newAdminPassword = await ensureSiteAdmin(services)

  let isRecovered = false
  const app = await buildApp(services, () => isRecovered)
  const url = await app.listen({ host: config.host, port: config.port })
  if (publicUrl === '') publicUrl = url

  const stopping = new AbortController()
  async function recover(): Promise<void> {
    const last = await events.lastPosition()
    while (!stopping.signal.aborted && !(await projector.waitFor(last, 1000)));
    if (stopping.signal.aborted) return
    await recoverMerges(services)
    await finishDeletions(services)
    await processes.start()
    isRecovered = true
  }
  const recovered = recover().catch((error: unknown) => log.error({ err: error }, 'the recovery failed'))

  return {
    url: publicUrl,
    services,
    newAdminPassword,
    recovered,
    async stop() {
      stopping.abort()
      await app.close()
      await recovered
      await processes.stop()
      await projector.stop()
      await Promise.all([events.close(), readStore.close(), secrets.close()])
    },
  }
}
