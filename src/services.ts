/** What every route and process works with; `main.ts` makes one. */

import type { FastifyBaseLogger } from 'fastify'
import type { AttachmentFiles } from './attachments/files.ts'
import type { Config } from './config.ts'
import type { EventStore } from './events/event-store.ts'
import type { PushJournal } from './git/push-journal.ts'
import type { LiveEvents } from './projections/live-events.ts'
import type { Projector } from './projections/projector.ts'
import type { ReadStore } from './projections/read-store.ts'
import type { Rebuilder } from './projections/rebuild.ts'
import type { Views } from './projections/views.ts'

export interface Services {
  config: Config
  log: FastifyBaseLogger
  events: EventStore
  /** Where the read models are kept: asked for its health; queries go through `views`. */
  readStore: ReadStore
  views: Views
  /** Password and token hashes: a store of their own, never rebuilt from the log. */
  secrets: ReadStore
  projector: Projector
  rebuilder: Rebuilder
  /** Bare repositories, `<repoId>.git` each. */
  gitDir: string
  /** Markers of refs that are moving: what a crash leaves here, the next start compares with the log. */
  pushJournal: PushJournal
  /** The files of comments. */
  attachments: AttachmentFiles
  /** What is appended, for all who follow it. */
  live: LiveEvents
  /** Where clients reach this server, without a trailing slash: the start of every URL in an answer. */
  publicUrl: () => string
}

/** What answers about issues and pull requests are made from. */
export type AnswerServices = Pick<Services, 'events' | 'views' | 'publicUrl'>

/** Directory of a repository's git objects and refs. */
export function gitDirOf(services: Services, repoId: number): string {
  return `${services.gitDir}/${repoId}.git`
}
