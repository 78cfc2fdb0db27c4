/** Opens the configured stores: embedded ones by default, servers when a URL is set. */
import { join } from 'node:path'
import { createTextKeys } from '../auth/text-keys.ts'
import { createKeyedMutex, type RunExclusive } from '../concurrency/keyed-mutex.ts'
import { type Config, isShared } from '../config/config.ts'
import { joinNodes, type MembershipOptions } from '../events/nodes/membership.ts'
import type { NodeMutexOptions } from '../events/nodes/node-mutex.ts'
import { aloneNode, type Membership, type Nodes } from '../events/nodes/nodes.ts'
import { lostTextReporter } from '../events/sealing/lost-texts.ts'
import { type SealedStore, sealTexts } from '../events/sealing/sealed-store.ts'
import { type EventStore, isOutage } from '../events/store/event-store.ts'
import { openSqliteEventStore } from '../events/store/sqlite/sqlite.ts'
import { writtenBy } from '../events/store/written-by.ts'
import { withGenerations } from '../projections/generations/generations.ts'
import { sharedGenerations } from '../projections/generations/shared-generations.ts'
import type { ReadStore } from '../projections/store/read-store.ts'
import { openSqliteReadStore } from '../projections/store/sqlite/sqlite.ts'
import { READ_MODELS } from '../projections/views/views.ts'
import { createSecretStore } from '../services/secret-store.ts'
import { DataDirInUse } from '../storage/data-lock.ts'

/** The file of the embedded log in a data directory. */
export const eventsFile = (dataDir: string) => join(dataDir, 'events.db')

/** The file of the embedded read models in a data directory. */
export const viewsFile = (dataDir: string) => join(dataDir, 'views.db')

/** The file of the embedded secrets in a data directory. */
export const secretsFile = (dataDir: string) => join(dataDir, 'secrets.db')

/**
 * Opens the event log. Loads the EventStoreDB driver only when it is needed: loading it is slow.
 * @throws StoreUnavailable in one line with a remedy, when the log cannot be read
 * @throws DataDirInUse when an import into EventStoreDB was cut off
 */
export async function openEvents({ eventStoreUrl, dataDir, nodeName }: Config): Promise<EventStore> {
  if (eventStoreUrl === undefined) return writtenBy(nodeName, openSqliteEventStore(eventsFile(dataDir)))
  const { openReadableEventStoreDb } = await import('../events/store/eventstoredb/eventstoredb.ts')
  const log = await openReadableEventStoreDb(eventStoreUrl)
  try {
    if ((await log.importMark.unfinished()) === undefined) return writtenBy(nodeName, log)
    throw new DataDirInUse('EVENTSTORE_URL: an import into this log is incomplete; run the same import again')
  } catch (error) {
    await log.close()
    throw error
  }
}

/**
 * Opens the store of the read models, and the store of the secrets: the same kind of store, but never rebuilt.
 * `readStore` is the current generation. `membership`: of this server among those that share the store.
 * @throws OperatorError when MongoDB lacks what the read models need
 */
export async function openReadStores(
  {
    mongodbUrl,
    dataDir,
    nodeName,
    readTimeoutMs,
  }: Pick<Config, 'mongodbUrl' | 'dataDir' | 'nodeName' | 'readTimeoutMs'>,
  membership: Membership = aloneNode(nodeName),
) {
  if (mongodbUrl === undefined) {
    const generations = withGenerations(
      openSqliteReadStore(viewsFile(dataDir), 'NORMAL', { deadlineMs: readTimeoutMs }),
    )
    const secrets = createSecretStore(openSqliteReadStore(secretsFile(dataDir), 'FULL'))
    return { generations, readStore: generations.current, secrets }
  }
  const { openMongoReadStore } = await import('../projections/store/mongodb/mongodb.ts')
  const { requireMongo, secretsDatabase } = await import('../projections/store/mongodb/database.ts')
  const { requireQuerySupport } = await import('../projections/store/mongodb/query-support.ts')
  await requireMongo(mongodbUrl)
  const database = secretsDatabase(mongodbUrl)
  const secrets = createSecretStore(openMongoReadStore(mongodbUrl, { database }))
  const documents = openMongoReadStore(mongodbUrl)
  try {
    await requireQuerySupport(documents)
  } catch (error) {
    await Promise.all([secrets.close(), documents.close()])
    throw error
  }
  const versions = new Map(READ_MODELS.map(({ collection, version }) => [collection.name, version]))
  const generations = sharedGenerations(documents, documents.shared, versions, membership)
  return { generations, readStore: generations.current, secrets }
}

/** Returns the log with its texts unsealed by the keys in the secret store. Logs texts whose keys are missing. */
export const withOpenTexts = (
  stored: EventStore,
  secrets: ReadStore,
  log: { error(facts: object, message: string): void },
): SealedStore => sealTexts(stored, createTextKeys(secrets), { onLost: lostTextReporter(log) })

/** This node's membership, and the locks that all nodes share. */
export interface OpenNodes {
  nodes: Nodes
  runExclusive: RunExclusive
  /** Waits until no lock is held, and leaves the other nodes. */
  close(): Promise<void>
}

/** Size of the connection pool for heartbeats and locks: they must not wait behind the commands of requests. */
const NODE_CONNECTIONS = 16

/**
 * Joins the other nodes of the same stores. On embedded stores there are none, and locks are local to the process.
 * @throws StoreUnavailable when MongoDB does not let this node join
 */
export async function openNodes(
  config: Config,
  options: Pick<MembershipOptions, 'log' | 'isReady'> & Pick<NodeMutexOptions, 'takeOver'>,
): Promise<OpenNodes> {
  const { mongodbUrl, nodeName: name } = config
  if (mongodbUrl === undefined || !isShared(config)) {
    return {
      nodes: aloneNode(name),
      runExclusive: createKeyedMutex(undefined, isOutage),
      close: async () => {},
    }
  }
  const { openMongoDatabase } = await import('../projections/store/mongodb/database.ts')
  const { startNodeMutex } = await import('../events/nodes/node-mutex.ts')
  const closing = new AbortController()
  const database = openMongoDatabase(mongodbUrl, 'the nodes', { maxPoolSize: NODE_CONNECTIONS })
  try {
    const nodes = await joinNodes({ ...database, ...options, name })
    const { runExclusive, idle } = startNodeMutex({ ...database, ...options, nodes }, closing.signal)
    return {
      nodes,
      runExclusive,
      async close() {
        closing.abort()
        await idle()
        await nodes.leave()
        await database.close()
      },
    }
  } catch (error) {
    await database.close()
    throw error
  }
}
