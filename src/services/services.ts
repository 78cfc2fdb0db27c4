/** The services that every route and process uses. `server.ts` makes them once. */
import type { FastifyBaseLogger } from 'fastify'
import type { RunExclusive } from '../concurrency/keyed-mutex.ts'
import type { Config } from '../config/config.ts'
import type { Nodes } from '../events/nodes/nodes.ts'
import type { SealedStore } from '../events/sealing/sealed-store.ts'
import type { EventStore, Position } from '../events/store/event-store.ts'
import type { GitLimits } from '../git/process/limits.ts'
import type { PushJournal } from '../git/push/push-journal.ts'
import type { DiskUsage } from '../projections/installation/disk-usage.ts'
import type { LiveEvents } from '../projections/live/live-events.ts'
import type { WebhookDeliveries } from '../projections/models/webhooks/webhook-deliveries.fold.ts'
import type { Projector } from '../projections/projector/projector.ts'
import type { Rebuilder } from '../projections/projector/rebuild.ts'
import type { ReadStore } from '../projections/store/read-store.ts'
import type { AccountChanges } from '../projections/views/account-changes.ts'
import type { Views } from '../projections/views/views.ts'
import type { AttachmentFiles } from '../storage/attachments/files.ts'
import type { FreeSpace } from '../storage/free-space.ts'
import type { HistoryCaches } from './history/history-caches.ts'
import type { LogCheckpoints } from './log-checkpoints.ts'
import type { Moments } from './moment.ts'
import type { SecretStore } from './secret-store.ts'
import type { WriteState } from './writes/write-state.ts'

export interface Services {
  config: Config
  log: FastifyBaseLogger
  /** The log, with its sealed texts decrypted. */
  events: EventStore
  /** The caches and queues of commands. */
  writeState: WriteState
  /** The same log as it is stored, and the keys of its texts. */
  texts: Pick<SealedStore, 'stored' | 'keys' | 'forget'>
  /** The store of the read models. Use it only for health checks; queries go through `views`. */
  readStore: ReadStore
  /** Those of the moment that the current request reads; present ones without one. */
  views: Views
  /** Past moments of repositories, organizations and users. */
  moments: Moments
  /** Recent changes of accounts by this server. */
  accountChanges: AccountChanges
  /** Password and token hashes. They have their own store, which is never rebuilt from the log. */
  secrets: SecretStore
  nodes: Nodes
  /** Runs work one at a time per key, on all nodes. Keys name things by their ids, so they are the same everywhere. */
  runExclusive: RunExclusive
  projector: Projector
  rebuilder: Rebuilder
  /** The directory of the bare repositories, each named `<repoId>.git`. */
  gitDir: string
  /** Limits for git work of clients. */
  gitLimits: GitLimits
  /** Markers of pushes in progress. After a crash, the next start compares their repositories with the log. */
  pushJournal: PushJournal
  /** Disk usage of repositories. */
  diskUsage: DiskUsage
  /** Pending and past deliveries of webhooks. */
  webhookDeliveries: WebhookDeliveries
  /** Free space on the file system of the data directory. */
  freeSpace: FreeSpace
  /** Start of this process's work on the data directory, in milliseconds since 1970. */
  startedAt: () => number
  /** End of the log when this server started. Later events are new, whatever the clocks of other servers say. */
  startedAfter: Position
  /** The files attached to comments. */
  attachments: AttachmentFiles
  /** The caches of history reads. */
  historyCaches: HistoryCaches
  /** The signed checkpoints of the log; undefined without `LOG_SIGNING_KEY`. */
  checkpoints: LogCheckpoints | undefined
  /** New events, for the clients that follow the log live. */
  live: LiveEvents
  /** The URL at which clients reach this server, without a trailing slash. Every URL in an answer begins with it. */
  publicUrl: () => string
}

/** The services that write to the log. */
export type WriteServices = Pick<Services, 'events' | 'writeState'>

/** The services that read histories of streams. */
export type HistoryServices = Pick<Services, 'events' | 'historyCaches'>

/** The services that build answers about issues and pull requests. */
export type AnswerServices = Pick<Services, 'events' | 'views' | 'publicUrl'> & {
  diskUsage: Pick<DiskUsage, 'getMany'>
}

/** The directory of a bare repository. */
export function gitDirOf(services: Pick<Services, 'gitDir'>, repoId: number): string {
  return `${services.gitDir}/${repoId}.git`
}
