/** Builds a whole server from its configuration, starts it, and stops it in order. */
import { setMaxListeners } from 'node:events'
import { findSourceMap } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyBaseLogger } from 'fastify'
import { historyJson } from '../api/history/history.ts'
import { secretCollections } from '../auth/secrets.ts'
import { ensureSiteAdmin } from '../commands/users/site-admin.ts'
import { type Config, isShared } from '../config/config.ts'
import { listenProblem } from '../config/listen-problem.ts'
import { createStartupRetry } from '../events/store/startup-retry.ts'
import { objectReaders } from '../git/objects/object-readers.ts'
import { createGitLimits } from '../git/process/limits.ts'
import { limitGitMemory } from '../git/process/memory-limit.ts'
import { openPushJournal } from '../git/push/push-journal.ts'
import { requireCertificate } from '../http/connections/https.ts'
import { observeCalls } from '../observability/grpc-calls.ts'
import { createMetrics } from '../observability/metrics.ts'
import { startMetricsServer } from '../observability/metrics-route.ts'
import { observedLog } from '../observability/observed-log.ts'
import { tracedLog } from '../observability/traced-log.ts'
import { tracedProcess } from '../observability/traced-processes.ts'
import type { Tracing } from '../observability/tracing.ts'
import { createBackground } from '../processes/background.ts'
import { refuseMissingDisks } from '../processes/missing-disks.ts'
import { recoverPushes, recoverUnderLock } from '../processes/recovery.ts'
import { createRecoveryRounds } from '../processes/recovery-rounds.ts'
import { createDiskUsage } from '../projections/installation/disk-usage.ts'
import { openLogTree } from '../projections/installation/log-tree.ts'
import { createLiveEvents } from '../projections/live/live-events.ts'
import { createWebhookDeliveries } from '../projections/models/webhooks/webhook-deliveries.fold.ts'
import { ownMomentsDirectory } from '../projections/moments/builder.ts'
import type { AroundBatch } from '../projections/projector/batch-writer.ts'
import { READ_MODELS } from '../projections/views/views.ts'
import { createMoments } from '../queries/history/moments/moments.ts'
import { createHistoryCaches } from '../services/history/history-caches.ts'
import { createLogCheckpoints } from '../services/log-checkpoints.ts'
import { viewsOfMoment } from '../services/moment.ts'
import type { Services } from '../services/services.ts'
import { createClaimAges } from '../services/writes/claim-ages.ts'
import { createWriteState } from '../services/writes/write-state.ts'
import { openAttachmentFiles } from '../storage/attachments/files.ts'
import { watchFreeSpace } from '../storage/free-space.ts'
import { connectionsWithin } from '../storage/open-files.ts'
import { makePrivateFiles } from '../storage/private-files.ts'
import { recordNow } from '../storage/steady-clock.ts'
import { startGrpc } from '../upgrade/grpc-server.ts'
import { buildApp } from './app.ts'
import { connectionLimits, trustedProxies } from './client-limits.ts'
import { prepareDataDir } from './data-directory.ts'
import { closeInTime, drain } from './drain.ts'
import { createReadModels } from './read-models.ts'
import { readLogSigner, requireGit, requireReadableEnd, requireSigningKey } from './start-checks.ts'
import { openEvents, openNodes, openReadStores, withOpenTexts } from './stores.ts'

export type Server = Awaited<ReturnType<typeof startServer>>

const tlsFiles = ({ grpcTlsCert: cert, grpcTlsKey: key }: Config) =>
  cert === undefined || key === undefined ? undefined : { cert, key }

/** Loads OpenTelemetry only when traces are exported: it is large. */
async function tracingOf({ otlpEndpoint: endpoint, nodeName: node }: Config): Promise<Tracing | undefined> {
  if (endpoint === undefined) return undefined
  const { openTracing } = await import('../observability/tracing.ts')
  return openTracing({ endpoint, node })
}

/** When to free the documents that rebuilds of earlier processes left behind. */
const FREE_SPARES_AFTER_MS = 10_000
const FREE_SPARES_EVERY_MS = 600_000

/**
 * Starts a server. It listens before any change that a repeated start could not make again; requests get 503 until
 * then. `/healthz` gives 200 when the read models are current and the recovery from a crash is complete.
 */
export async function startServer(wanted: Config, logger: FastifyBaseLogger) {
  const startedAt = recordNow()
  const log = logger.child({ node: wanted.nodeName })
  const config = connectionsWithin(wanted)
  const { maxConnections } = config
  if (maxConnections < wanted.maxConnections) {
    log.warn(
      { maxConnections },
      `ulimit -n is too low for MAX_CONNECTIONS: the limit is ${maxConnections} connections`,
    )
  }
  makePrivateFiles()
  limitGitMemory(config.gitMemoryBytes)
  const git = await requireGit()
  await requireSigningKey(config)
  const logSigner = await readLogSigner(config)
  const certificate = await requireCertificate(config)
  const { gitDir, unlock } = await prepareDataDir(config, log, git)

  /** Aborted first: clients are then asked to reconnect elsewhere, but all requests are still answered. */
  const leaving = new AbortController()
  const stopping = new AbortController()
  const { signal } = stopping
  // Each rebuilt model has a listener. Without this, Node would warn about a leak.
  setMaxListeners(0, signal)
  const metrics = createMetrics({ node: config.nodeName, isDense: config.eventStoreUrl === undefined })
  // Before the stores are opened: their drivers publish commands only to existing listeners.
  const tracing = await tracingOf(config)
  const retryStartup = createStartupRetry(log, config.startTimeoutMs)
  const counted = observedLog(await retryStartup(() => openEvents(config)), metrics)
  const system = config.eventStoreUrl === undefined ? 'sqlite' : 'eventstoredb'
  const stored = tracing === undefined ? counted : tracedLog(counted, tracing, system)
  if (config.eventStoreUrl === undefined) await requireReadableEnd(stored)
  const recovery = createRecoveryRounds(signal)
  const {
    nodes,
    runExclusive,
    close: leaveNodes,
  } = await retryStartup(() =>
    openNodes(config, {
      log,
      isReady: () => recovery.isComplete() && !signal.aborted,
      takeOver: (key) => recoverUnderLock(services, key),
    }),
  )
  const stores = await retryStartup(() => openReadStores(config, nodes))
  const { readStore, secrets } = stores
  const events = withOpenTexts(stored, secrets, log)
  const beginning = await retryStartup(() => events.lastPosition())
  const around: AroundBatch = async (batch, work) => {
    const begun = performance.now()
    const ids = batch.map(({ metadata }) => metadata.correlationId)
    await (tracing === undefined ? work() : tracing.following('projector batch', ids, work))
    metrics.projected(batch, performance.now() - begun)
  }
  const { projector, views, accountChanges, openRequests, upgrade, rebuilder } = createReadModels({
    log,
    events,
    stores,
    nodes,
    beginning,
    around,
    signal,
  })
  const isOnly = () => !nodes.all().some(({ id, name }) => id !== nodes.self().id && name === config.nodeName)
  const writeState = createWriteState({
    keyedEvents: { projector, readStore },
    claimAges: createClaimAges({ node: config.nodeName, position: beginning, isOnly }),
    isAlone: !isShared(config),
  })
  const attachments = await openAttachmentFiles(join(config.dataDir, 'attachments'), {
    isShared: isShared(config),
  })
  let publicUrl = config.publicUrl ?? ''
  const diskUsage = createDiskUsage(readStore)
  const historyCaches = createHistoryCaches(events)
  const freeSpace = watchFreeSpace(
    { data: config.dataDir, git: gitDir, attachments: attachments.directory },
    config.minFreeBytes,
  )
  const directory = await retryStartup(() => ownMomentsDirectory(config.dataDir, nodes))
  const moments = await createMoments(
    { events, views, diskUsage, historyCaches, publicUrl: () => publicUrl },
    { directory, deadlineMs: config.readTimeoutMs, freeSpace },
  )
  const services: Services = {
    config,
    log,
    events,
    writeState,
    texts: events,
    readStore,
    views: viewsOfMoment(views),
    moments,
    accountChanges,
    secrets,
    nodes,
    runExclusive,
    projector,
    rebuilder,
    gitDir,
    gitLimits: createGitLimits(config),
    pushJournal: await openPushJournal(join(config.dataDir, 'pushes'), {
      owners: isShared(config) ? { self: () => nodes.self().id, isGone: nodes.isGone } : undefined,
    }),
    attachments,
    diskUsage,
    webhookDeliveries: createWebhookDeliveries(readStore),
    freeSpace,
    startedAt,
    startedAfter: beginning,
    historyCaches,
    checkpoints: logSigner && createLogCheckpoints(events, openLogTree(readStore, stored), logSigner),
    live: createLiveEvents({ events, projector, toJson: historyJson, log }),
    publicUrl: () => publicUrl,
  }
  const background = createBackground(services, signal, (manager) =>
    tracing === undefined ? manager : tracedProcess(manager, tracing),
  )
  const { processes } = background

  await retryStartup(() => secrets.prepare(secretCollections))
  await retryStartup(() => events.keys.ahead())
  await retryStartup(() => services.diskUsage.prepare())
  await retryStartup(() => services.webhookDeliveries.prepare())
  await retryStartup(async () => services.checkpoints?.tree.prepare())
  await retryStartup(() => projector.start())
  await retryStartup(() => refuseMissingDisks(services))
  await retryStartup(() => recoverPushes(services))

  const freeing = freeRegularly()
  let isOpen = false

  const state = () => ({
    recovered: recovery.isComplete(),
    processes: processes.map((runner) => runner.status()),
  })
  const observed = {
    metrics,
    tracing,
    processes,
    isRecovered: recovery.isComplete,
    grpcConnections: () => grpc.connections(),
  }
  const { app, scrape } = await buildApp({
    ...{ services, upgrade, openRequests, state, observed, certificate },
    isOpen: () => isOpen,
    leaving: leaving.signal,
  })
  // Node reads a source map with the first stack that needs it. That delayed the first failing request by up to 30 ms.
  findSourceMap(fileURLToPath(import.meta.url))
  const place = { settings: { host: 'HOST', port: 'PORT' }, host: config.host, port: config.port } as const
  const listening = await app.listen({ host: config.host, port: config.port }).catch((error: unknown) => {
    throw listenProblem(place, error)
  })
  // Clients cannot use the unspecified address.
  const address = listening.replace('//[::]:', '//[::1]:')
  const url = certificate === undefined ? address : address.replace(/^http:/, 'https:')
  if (publicUrl === '') publicUrl = url
  const grpc = await startGrpc({
    host: config.host,
    port: config.grpcPort,
    tls: tlsFiles(config),
    connections: { ...connectionLimits(config), isProxy: trustedProxies(config) ?? (() => false) },
    maxMessageBytes: config.grpcMaxMessageBytes,
    answers: upgrade,
    ready: () => isOpen && !leaving.signal.aborted && upgrade.ready(),
    log,
    observe: observeCalls(log, metrics, tracing),
  })
  const metricsServer = await startMetricsServer(config, () => scrape)

  // The last step that can fail: a failure after it would lose the password before it is printed.
  const adminPassword = await ensureSiteAdmin(services, retryStartup)
  isOpen = true
  recovery.start(services, background)

  let stopped: Promise<void> | undefined

  /** Removes leftovers of rebuilds, and on a shared store the documents of versions that no server runs any more. */
  async function freeRegularly(): Promise<void> {
    // Delayed, so that it doesn't slow the start. If it fails, a later round repeats it.
    for (let after = FREE_SPARES_AFTER_MS; !signal.aborted; after = FREE_SPARES_EVERY_MS) {
      await services.rebuilder.freeSpares(READ_MODELS, after).catch(() => {})
      if (!isShared(config)) return
    }
  }

  return {
    /** The URL for clients. */
    url: publicUrl,
    /** The URL on which it listens. */
    listensAt: url,
    /** The address of the gRPC Query service: `127.0.0.1:9090`. */
    grpcAddress: grpc.address,
    /** The URL of `METRICS_PORT`, if it is set. */
    metricsUrl: metricsServer?.url,
    services,
    /** The site admin's password, if the operator must be told about it. */
    adminPassword,
    /** Resolves when the recovery from a crash is complete. */
    recovered: recovery.completed,
    /**
     * Reports "not ready" and answers for another `DRAIN_MS`, so that load balancers notice; `hurry` ends that early.
     * Then waits for running requests, and closes everything in order. A second call waits for the first.
     */
    stop(hurry?: AbortSignal): Promise<void> {
      stopped ??= stop(hurry)
      return stopped
    },
  }

  async function stop(hurry?: AbortSignal): Promise<void> {
    leaving.abort()
    await drain(config, log, hurry)
    stopping.abort()
    await closeInTime(config, log, app, [grpc.stop(), metricsServer?.stop()])
    await Promise.all([recovery.stopped(), freeing])
    await background.stop()
    await projector.stop()
    await leaveNodes()
    await objectReaders.close(gitDir)
    await moments.close()
    await Promise.all([events.close(), readStore.close(), secrets.close()])
    metrics.close()
    await tracing?.close()
    unlock()
  }
}
