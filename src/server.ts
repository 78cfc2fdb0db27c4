/** Builds a whole server from its configuration, starts it, and stops it in order. */
import { setMaxListeners } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import type { FastifyBaseLogger } from 'fastify'
import { addressesIn } from './address-ranges.ts'
import { buildApp } from './app.ts'
import { openAttachmentFiles } from './attachments/files.ts'
import { refuseHalfRestored } from './backup/half-restored.ts'
import { beginsAfter } from './commands/claims.ts'
import { ensureSiteAdmin } from './commands/users/site-admin.ts'
import { type Config, ConfigError, isShared } from './config.ts'
import { takeUpDataDir } from './data-format.ts'
import type { EventStore } from './events/event-store.ts'
import { watchFreeSpace } from './free-space.ts'
import { prepareLaunches } from './git/launcher.ts'
import { createGitLimits } from './git/limits.ts'
import { limitGitMemory } from './git/memory-limit.ts'
import { objectReaders } from './git/object-readers.ts'
import { installPushHook } from './git/push-hook.ts'
import { openPushJournal } from './git/push-journal.ts'
import { gitOutput } from './git/run.ts'
import { signingKeyProblem } from './git/signatures.ts'
import { requireCertificate } from './http/https.ts'
import { createMetrics } from './observe/metrics.ts'
import { startMetricsServer } from './observe/metrics-route.ts'
import { observedLog } from './observe/observed-log.ts'
import { hasInfo, rounded } from './observe/request-log.ts'
import { tracedLog } from './observe/traced-log.ts'
import type { Tracing } from './observe/tracing.ts'
import { makePrivateFiles, narrowDataDir } from './private-files.ts'
import { attachmentRemoval, removeOrphans } from './processes/attachment-removal.ts'
import { deletedUsers } from './processes/deleted-users.ts'
import { headBranches } from './processes/head-branches.ts'
import { lfsObjects } from './processes/lfs-objects.ts'
import { lostAccess } from './processes/lost-access.ts'
import { createMaintenance } from './processes/maintenance.ts'
import { mentions } from './processes/mentions.ts'
import { ownerVisibility } from './processes/owner-visibility.ts'
import { createProcessRunner, type ProcessManager } from './processes/process-manager.ts'
import { pullHeads } from './processes/pull-heads.ts'
import {
  finishDeletions,
  recoverErasures,
  recoverMerges,
  recoverPushes,
  takeOverTurn,
} from './processes/recovery.ts'
import { releasedTags } from './processes/released-tags.ts'
import { scheduledMerges } from './processes/scheduled-merges.ts'
import { transfers } from './processes/transfers.ts'
import { createWebhooks } from './processes/webhooks/webhooks.ts'
import { createDiskUsage } from './projections/disk-usage.ts'
import { createLiveEvents } from './projections/live-events.ts'
import { type AroundBatch, createProjector } from './projections/projector.ts'
import type { Touched } from './projections/read-store.ts'
import { createRebuild } from './projections/rebuild.ts'
import { createViews, READ_MODELS } from './projections/views.ts'
import { createWebhookDeliveries } from './projections/webhook-deliveries.ts'
import { createOpenRequests } from './rights/open-requests.ts'
import { secretCollections } from './rights/secrets.ts'
import type { Services } from './services.ts'
import { since } from './since.ts'
import { openEvents, openNodes, openReadStores, withOpenTexts } from './stores.ts'
import { createUpgradeAnswers } from './upgrade/answers.ts'
import { startGrpc } from './upgrade/grpc-server.ts'
import { VERSION } from './version.ts'
import { historyJson } from './wire/history.ts'

export type Server = Awaited<ReturnType<typeof startServer>>

/** Checks the signing key at start, so that the first merge doesn't fail. @throws ConfigError */
async function requireSigningKey({ signingKey }: Config): Promise<void> {
  const problem = signingKey === undefined ? undefined : await signingKeyProblem(signingKey)
  if (problem !== undefined) throw new ConfigError('SIGNING_KEY', `cannot be used: ${problem}`)
}

/** Checks at start that git can run the hook of pushes, so that the first push doesn't fail. @throws ConfigError */
async function requirePushHook(gitDir: string): Promise<void> {
  await installPushHook(gitDir).catch((error: unknown) => {
    const problem = error instanceof Error ? error.message : String(error)
    throw new ConfigError(
      'DATA_DIR',
      `cannot be used: ${problem}; set TMPDIR to a directory where files can be`,
    )
  })
}

const tlsFiles = ({ grpcTlsCert: cert, grpcTlsKey: key }: Config) =>
  cert === undefined || key === undefined ? undefined : { cert, key }

const connectionLimits = ({ maxConnections, maxConnectionsPerAddress, trustProxy = [] }: Config) => ({
  all: maxConnections,
  perNetwork: maxConnectionsPerAddress,
  isProxy: addressesIn(trustProxy) ?? (() => false),
})

/** Loads OpenTelemetry only when traces are wanted: it is not small. */
async function tracingOf({ otlpEndpoint: endpoint, nodeName: node }: Config): Promise<Tracing | undefined> {
  if (endpoint === undefined) return undefined
  const { openTracing } = await import('./observe/tracing.ts')
  return openTracing({ endpoint, node })
}

/** Reads the end of the log at start, so that damage doesn't surface in a request. @throws BrokenEvent, BrokenFile */
async function requireReadableEnd(events: EventStore): Promise<void> {
  for await (const _ of events.readAll({ direction: 'backwards', maxCount: 1000 }));
}

/** What an operator asks first about a server. */
const startFacts = async ({ eventStoreUrl, mongodbUrl }: Config) => ({
  version: VERSION,
  nodejs: process.version,
  git: await gitOutput(['--version']).then(
    (text) => text.toString('utf8').replace('git version ', '').trim(),
    () => 'cannot be started',
  ),
  log: eventStoreUrl === undefined ? 'embedded' : 'EventStoreDB',
  readModels: mongodbUrl === undefined ? 'embedded' : 'MongoDB',
})

/** How often the server looks for work that was left undone while a store was unavailable. */
const RECOVERY_INTERVAL_MS = 5000

/** When to free what the rebuilds of an earlier process left behind. */
const FREE_SPARES_AFTER_MS = 10_000
const FREE_SPARES_EVERY_MS = 600_000

/**
 * Starts a server. It answers requests as soon as it listens. `/healthz` gives 200 when the read models are current
 * and the recovery from a crash is complete.
 */
export async function startServer(config: Config, logger: FastifyBaseLogger) {
  const startedAt = since()
  const log = logger.child({ node: config.nodeName })
  makePrivateFiles()
  limitGitMemory(config.gitMemoryBytes)
  await prepareLaunches()
  await requireSigningKey(config)
  const certificate = await requireCertificate(config)
  const gitDir = join(config.dataDir, 'git')
  await mkdir(gitDir, { recursive: true })
  const { unlock, news } = await takeUpDataDir(config.dataDir, isShared(config) ? 'shared' : 'alone', () =>
    refuseHalfRestored(config.dataDir, () => {}),
  )
  log.info(await startFacts(config), `Mergelog ${VERSION} starts`)
  if (news !== undefined) log.info(news)
  await requirePushHook(gitDir)
  const readableByOthers = await narrowDataDir(config.dataDir)
  if (readableByOthers.length > 0) {
    log.warn(
      { paths: readableByOthers },
      'others may read files of the data directory; they are not ours to change',
    )
  }

  /** Aborted first: from then on clients are asked to go elsewhere, but all is answered as before. */
  const leaving = new AbortController()
  const stopping = new AbortController()
  const { signal } = stopping
  // Each rebuilt model waits with a listener to be freed. Without this, Node would warn about a leak.
  setMaxListeners(0, signal)
  const metrics = createMetrics({ node: config.nodeName, isDense: config.eventStoreUrl === undefined })
  // Before the stores are opened: their drivers tell of what they do only when somebody listens.
  const tracing = await tracingOf(config)
  const counted = observedLog(await openEvents(config), metrics)
  const system = config.eventStoreUrl === undefined ? 'sqlite' : 'eventstoredb'
  const stored = tracing === undefined ? counted : tracedLog(counted, tracing, system)
  if (config.eventStoreUrl === undefined) await requireReadableEnd(stored)
  let isRecovered = false
  const {
    nodes,
    turns,
    close: leaveNodes,
  } = await openNodes(config, {
    log,
    isReady: () => isRecovered && !signal.aborted,
    takeOver: (key) => takeOverTurn(services, key),
  })
  const { generations, readStore, secrets } = await openReadStores(config, nodes)
  const events = withOpenTexts(stored, secrets, log)
  const views = createViews(readStore, (model) =>
    projector.status().some(({ name, stopped }) => name === model && stopped !== undefined),
  )
  const applied = (touched: readonly Touched[]) => {
    for (const view of Object.values(views)) view.applied(touched)
    openRequests.applied(touched)
    upgrade.applied(touched)
  }
  const forget = (collection: string) => {
    for (const view of Object.values(views)) view.exchanged(collection)
    openRequests.exchanged(collection)
    upgrade.exchanged(collection)
  }
  const around: AroundBatch = async (batch, work) => {
    const begun = performance.now()
    const ids = batch.map(({ metadata }) => metadata.correlationId)
    await (tracing === undefined ? work() : tracing.following('projector batch', ids, work))
    metrics.projected(batch, performance.now() - begun)
  }
  const sharing = { membership: nodes, forget }
  const projector = createProjector(log, events, readStore, READ_MODELS, applied, sharing, around)
  generations.onExchanged(forget)
  const openRequests = createOpenRequests({ events, views, projector, secrets })
  const beginning = await events.lastPosition()
  beginsAfter(events, { node: config.nodeName, position: beginning })
  const upgrade = createUpgradeAnswers(readStore, projector, beginning, nodes.isMember)

  let publicUrl = config.publicUrl ?? ''
  const services: Services = {
    config,
    log,
    events,
    texts: events,
    readStore,
    views,
    secrets,
    nodes,
    turns,
    projector,
    rebuilder: createRebuild({
      events,
      generations,
      projector,
      exchanged: forget,
      signal,
    }),
    gitDir,
    gitLimits: createGitLimits(config),
    pushJournal: await openPushJournal(join(config.dataDir, 'pushes'), {
      owners: isShared(config) ? { self: () => nodes.self().id, isGone: nodes.isGone } : undefined,
    }),
    attachments: await openAttachmentFiles(join(config.dataDir, 'attachments'), {
      isShared: isShared(config),
    }),
    diskUsage: createDiskUsage(readStore),
    webhookDeliveries: createWebhookDeliveries(readStore),
    freeSpace: watchFreeSpace(config.dataDir, config.minFreeBytes),
    startedAt,
    live: createLiveEvents({ events, projector, toJson: historyJson, log }),
    publicUrl: () => publicUrl,
  }
  const maintenance = createMaintenance(services, signal)
  const webhooks = createWebhooks(services, signal)
  const traced = (manager: ProcessManager): ProcessManager =>
    tracing === undefined
      ? manager
      : {
          ...manager,
          react: (event, context) =>
            tracing.following(`process ${manager.name}`, [context.correlationId], () =>
              manager.react(event, context),
            ),
        }
  const processes = [
    pullHeads(services),
    scheduledMerges(services),
    headBranches(services),
    attachmentRemoval(services),
    ownerVisibility(services),
    deletedUsers(services),
    releasedTags(services),
    lostAccess(services),
    transfers(services),
    mentions(services),
    maintenance.manager(services),
    lfsObjects(services),
    webhooks.manager,
  ].map((manager) => createProcessRunner(log, events, readStore, projector, traced(manager), nodes))

  await secrets.prepare(secretCollections)
  await events.keys.ahead()
  await services.diskUsage.prepare()
  await services.webhookDeliveries.prepare()
  await projector.start()
  await recoverPushes(services)
  const newAdminPassword = await ensureSiteAdmin(services)

  const freeing = keepFreeing()

  const state = () => ({
    recovered: isRecovered,
    processes: processes.map((runner) => runner.status()),
  })
  const observed = {
    metrics,
    tracing,
    processes,
    isRecovered: () => isRecovered,
    grpcConnections: () => grpc.connections(),
  }
  const { app, scrape } = await buildApp(
    services,
    upgrade,
    openRequests,
    state,
    leaving.signal,
    observed,
    certificate,
  )
  const listening = await app.listen({ host: config.host, port: config.port })
  const url = certificate === undefined ? listening : listening.replace(/^http:/, 'https:')
  if (publicUrl === '') publicUrl = url
  const grpc = await startGrpc({
    host: config.host,
    port: config.grpcPort,
    tls: tlsFiles(config),
    connections: connectionLimits(config),
    maxMessageBytes: config.grpcMaxMessageBytes,
    answers: upgrade,
    ready: () => !leaving.signal.aborted && upgrade.ready(),
    log,
    observe(method, call) {
      const begun = performance.now()
      const endSpan = tracing?.call(method, call.metadata.get('traceparent')[0]?.toString())
      return (code) => {
        const ms = performance.now() - begun
        metrics.call(method, status[code], ms)
        endSpan?.(status[code])
        if (hasInfo(log))
          log.info({ method, code: status[code], ms: rounded(ms), peer: call.getPeer() }, 'gRPC call')
      }
    },
  })
  const metricsServer = await startMetricsServer(config, () => scrape)

  let markRecovered: () => void = () => {}
  const recovered = new Promise<void>((resolve) => {
    markRecovered = resolve
  })
  async function projected(): Promise<void> {
    const last = await events.lastPosition()
    while (!signal.aborted && !(await projector.waitFor(last, 1000)));
  }
  async function recover(): Promise<void> {
    await projected()
    if (signal.aborted) return
    await finishDeletions(services)
    await recoverMerges(services)
    await recoverErasures(services)
    await removeOrphans(services)
    // Whoever hears that the recovery is complete also reads what it wrote.
    await projected()
    for (const runner of processes) await runner.start()
    maintenance.start()
    webhooks.start(() => processes.some((runner) => runner.status().name === 'webhooks' && runner.isHeld()))
    isRecovered = true
    markRecovered()
  }

  /** Repeats the recovery, so that work that failed while a store was unavailable gets done later. */
  async function keepRecovered(): Promise<void> {
    while (!signal.aborted) {
      try {
        if (!isRecovered) await recover()
        else {
          await recoverPushes(services)
          await recoverMerges(services)
          await recoverErasures(services)
        }
      } catch (error) {
        log.warn({ err: error }, 'the recovery failed; it will be repeated')
      }
      await delay(RECOVERY_INTERVAL_MS, undefined, { signal }).catch(() => {})
    }
  }
  const recovering = keepRecovered()

  let stopped: Promise<void> | undefined

  /** Removes what rebuilds have left, and on a shared store the documents of versions that no server has any more. */
  async function keepFreeing(): Promise<void> {
    // Delayed, so that it doesn't slow the start. If it fails, a later round repeats it.
    for (let after = FREE_SPARES_AFTER_MS; !signal.aborted; after = FREE_SPARES_EVERY_MS) {
      await services.rebuilder.freeSpares(READ_MODELS, after).catch(() => {})
      if (!isShared(config)) return
    }
  }

  return {
    url: publicUrl,
    /** The address of the gRPC Query service: `127.0.0.1:9090`. */
    grpcAddress: grpc.address,
    /** The URL of `METRICS_PORT`, if it is set. */
    metricsUrl: metricsServer?.url,
    services,
    /** The site admin's password, when this start made the account and chose a random password; shown once. */
    newAdminPassword,
    /** Resolves when the recovery from a crash is complete. */
    recovered,
    /**
     * Says that it is not ready any more and goes on for `DRAIN_MS`, so that a load balancer notices; `hurry` ends that
     * early. Then waits for running requests, and closes everything in order. A second call waits for the first.
     */
    stop(hurry?: AbortSignal): Promise<void> {
      stopped ??= stop(hurry)
      return stopped
    },
  }

  async function stop(hurry?: AbortSignal): Promise<void> {
    leaving.abort()
    if (config.drainMs > 0) {
      log.info(
        { drainMs: config.drainMs },
        'stopping; /healthz is 503 now, everything else goes on for a while',
      )
      await delay(config.drainMs, undefined, { signal: hurry }).catch(() => {})
    }
    stopping.abort()
    await Promise.all([app.close(), grpc.stop(), metricsServer?.stop()])
    await Promise.all([recovering, freeing])
    await Promise.all([
      maintenance.stopped(),
      webhooks.stopped(),
      ...processes.map((runner) => runner.stop()),
    ])
    await projector.stop()
    await leaveNodes()
    await objectReaders.close(gitDir)
    await Promise.all([events.close(), readStore.close(), secrets.close()])
    metrics.close()
    await tracing?.close()
    unlock()
  }
}
