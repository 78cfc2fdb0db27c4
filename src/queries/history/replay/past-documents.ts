/** Related documents of the past: labels, milestones, repositories and accounts, replayed from their own streams. */

import { LRUCache } from 'lru-cache'
import { accessTo } from '../../../access/access.ts'
import type { DocumentSource } from '../../../api/related-documents.ts'
import {
  labelStream,
  milestoneStream,
  organizationStream,
  repositoryStream,
  userStream,
} from '../../../events/streams.ts'
import { labelFold } from '../../../projections/models/labels/labels.fold.ts'
import { milestoneFold } from '../../../projections/models/milestones/milestones.fold.ts'
import {
  type RepositoryDocument,
  repositoryFold,
} from '../../../projections/models/repositories/repositories.fold.ts'
import { type AccountDocument, accountFold } from '../../../projections/models/users/accounts.fold.ts'
import type { Fold } from '../../../projections/projector/read-model.ts'
import type { AnswerServices, HistoryServices } from '../../../services/services.ts'
import type { Until } from './document-at.ts'
import { type ReplayClient, SERVER_CLIENT } from './replay-client.ts'
import { replayStream } from './replay-stream.ts'

/** Maximum number of concurrent reads of streams of one kind. */
const CONCURRENT_READS = 8
/** Maximum number of documents of one kind that are kept. */
const MAX_KNOWN = 1000

/** Returns a function that replays the document with an id from the stream that has all its events. */
export const documentReplayer =
  (services: HistoryServices, until: Until, replayClient: ReplayClient = SERVER_CLIENT) =>
  async <D extends object>(fold: Fold<D>, stream: string, id: string): Promise<D | undefined> =>
    (await replayStream(services, stream, fold, id, until, undefined, undefined, replayClient)).document

/** Reads documents that never change: each once, while it is among those that were read last. */
export function readOnce<D extends object>(read: (id: string) => Promise<D | undefined>) {
  const known = new LRUCache<string, { document: D | undefined }>({ max: MAX_KNOWN })

  async function one(id: string): Promise<D | undefined> {
    const before = known.get(id)
    if (before !== undefined) return before.document
    const document = await read(id)
    known.set(id, { document })
    return document
  }

  return {
    /** In the order of the ids; missing ones are left out. */
    async getMany(ids: readonly string[]): Promise<D[]> {
      const found: (D | undefined)[] = []
      for (let i = 0; i < ids.length; i += CONCURRENT_READS) {
        found.push(...(await Promise.all(ids.slice(i, i + CONCURRENT_READS).map(one))))
      }
      return found.filter((document) => document !== undefined)
    },
  }
}

/**
 * Returns an account of the past without what is hidden now: its address, and the profile of a deleted user. The name stays: it
 * is in the events. Stars are counted now.
 */
export function withoutHidden(past: AccountDocument, now: AccountDocument): AccountDocument {
  const { email, showEmail, stars, fullName, description, location, website } = now
  const profile = now.deleted ? { fullName, description, location, website } : {}
  return { ...past, email, showEmail, stars, ...profile }
}

/**
 * Returns the related documents of one replay as of `until`. Each stream is read once, for `replayClient`. Some values
 * are current ones, because they come from many streams: permissions, counters, disk usage, emptiness, and the last
 * update of a milestone or repository. A deleted milestone has counters of 0; a deleted repository is not shown.
 */
export function pastDocuments(
  services: AnswerServices & HistoryServices,
  until: Until,
  replayClient: ReplayClient = SERVER_CLIENT,
): DocumentSource {
  const { views } = services
  const repositoriesNow = new Map<number, RepositoryDocument>()

  const replayed = documentReplayer(services, until, replayClient)

  return {
    labels: readOnce((id) => replayed(labelFold, labelStream(Number(id)), id)),
    milestones: readOnce(async (id) => {
      const [milestone, now] = await Promise.all([
        replayed(milestoneFold, milestoneStream(Number(id)), id),
        views.milestones.get(id),
      ])
      if (milestone === undefined || now === undefined) return milestone
      const { openIssues, closedIssues, updatedAt } = now
      return { ...milestone, openIssues, closedIssues, updatedAt }
    }),
    repositories: readOnce(async (id) => {
      const now = await views.repositories.get(id)
      if (now === undefined) return undefined
      repositoriesNow.set(now.id, now)
      const repository = await replayed(repositoryFold, repositoryStream(now.id), id)
      if (repository === undefined) return undefined
      const { forks, stars, watchers, releases = 0 } = now
      const { openIssues, closedIssues, openPulls, closedPulls, empty, updatedAt } = now
      return {
        ...repository,
        forks,
        stars,
        watchers,
        releases,
        openIssues,
        closedIssues,
        openPulls,
        closedPulls,
        empty,
        updatedAt,
      }
    }),
    accounts: readOnce(async (id) => {
      const now = await views.accounts.get(id)
      if (now === undefined) return undefined
      const past = await replayed(
        accountFold,
        (now.kind === 'user' ? userStream : organizationStream)(now.id),
        id,
      )
      return past && withoutHidden(past, now)
    }),
    teams: views.teams,
    usages: services.diskUsage.getMany,
    access(repository, requester) {
      const now = repositoriesNow.get(repository.id)
      return now === undefined ? 'none' : accessTo(now, requester)
    },
  }
}
