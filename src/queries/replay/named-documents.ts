/** What documents name, as it was: labels, milestones, repositories and accounts from their own streams. */
import {
  labelStream,
  milestoneStream,
  organizationStream,
  repositoryStream,
  userStream,
} from '../../events/streams.ts'
import { accountFold } from '../../projections/accounts.ts'
import { labelFold } from '../../projections/labels.ts'
import { milestoneFold } from '../../projections/milestones.ts'
import type { Fold } from '../../projections/read-model.ts'
import { type RepositoryDocument, repositoryFold } from '../../projections/repositories.ts'
import { accessTo } from '../../rights/access.ts'
import type { AnswerServices } from '../../services.ts'
import type { NamedDocuments } from '../../wire/discussions.ts'
import type { Until } from './document-at.ts'
import { replayStream } from './replay-stream.ts'

/** Streams of one kind that are read at the same time. */
const AT_ONCE = 8

/**
 * Serves one replay; reads each stream once. Rights are those of now. So are counters, whether a repository is
 * empty, and when a milestone or repository was last updated: they come from many streams. What is counted of a
 * milestone that is gone is 0; a repository that is gone is not shown.
 */
export function namedThen(services: AnswerServices, until: Until): NamedDocuments {
  const { events, views } = services
  const repositoriesNow = new Map<number, RepositoryDocument>()

  function reader<D extends object>(read: (id: string) => Promise<D | undefined>) {
    const known = new Map<string, D | undefined>()
    return {
      async getMany(ids: readonly string[]): Promise<D[]> {
        const missing = [...new Set(ids)].filter((id) => !known.has(id))
        for (let i = 0; i < missing.length; i += AT_ONCE) {
          const part = missing.slice(i, i + AT_ONCE)
          await Promise.all(part.map(async (id) => known.set(id, await read(id))))
        }
        return ids.map((id) => known.get(id)).filter((document) => document !== undefined)
      },
    }
  }

  async function then<D extends object>(fold: Fold<D>, stream: string, id: string): Promise<D | undefined> {
    return (await replayStream(events, stream, fold, id, until)).document
  }

  return {
    labels: reader((id) => then(labelFold, labelStream(Number(id)), id)),
    milestones: reader(async (id) => {
      const [milestone, now] = await Promise.all([
        then(milestoneFold, milestoneStream(Number(id)), id),
        views.milestones.get(id),
      ])
      if (milestone === undefined || now === undefined) return milestone
      const { openIssues, closedIssues, updatedAt } = now
      return { ...milestone, openIssues, closedIssues, updatedAt }
    }),
    repositories: reader(async (id) => {
      const now = await views.repositories.get(id)
      if (now === undefined) return undefined
      repositoriesNow.set(now.id, now)
      const repository = await then(repositoryFold, repositoryStream(now.id), id)
      if (repository === undefined) return undefined
      const { forks, openIssues, closedIssues, openPulls, closedPulls, empty, updatedAt } = now
      return { ...repository, forks, openIssues, closedIssues, openPulls, closedPulls, empty, updatedAt }
    }),
    accounts: reader(async (id) => {
      const now = await views.accounts.get(id)
      if (now === undefined) return undefined
      return then(accountFold, (now.kind === 'user' ? userStream : organizationStream)(now.id), id)
    }),
    access(repository, requester) {
      const now = repositoriesNow.get(repository.id)
      return now === undefined ? 'none' : accessTo(now, requester)
    },
  }
}
