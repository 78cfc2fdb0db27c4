/** The statuses of commits: every posted status, and the current state of each commit's checks. */
import type { AccountRef, CommitState } from '../events/domain-events.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface CommitStatusDocument {
  id: number
  repoId: number
  sha: string
  context: string
  state: CommitState
  description: string
  targetUrl: string
  creator: AccountRef
  createdAt: string
}

export const commitStatuses: Collection<CommitStatusDocument> = {
  name: 'commit_statuses',
  indexes: [
    [
      ['repoId', 1],
      ['sha', 1],
      ['id', 1],
    ],
    [
      ['repoId', 1],
      ['sha', 1],
      ['state', 1],
      ['id', 1],
    ],
  ],
  arrays: [],
}

export const commitStatusFold: Fold<CommitStatusDocument> = foldOf({
  collection: commitStatuses,
  version: 1,
  ids: ({ data }) => [`${data.id}`],
  becomes: {
    CommitStatusPosted: (_, { data, metadata }) => ({ ...data, createdAt: metadata.at }),
  },
})

export const commitStatusModel = readModel(commitStatusFold)

/** The current checks of one commit, in short form. */
export interface CommitChecksDocument {
  repoId: number
  sha: string
  /** The latest status of each context, the newest first. */
  latest: { context: string; state: CommitState; id: number }[]
  /** The number of posted statuses in each state: lists use it as their total. */
  posted: Record<CommitState, number>
}

export const commitChecks: Collection<CommitChecksDocument> = {
  name: 'commit_checks',
  indexes: [],
  arrays: [],
}

export const commitChecksId = (repoId: number, sha: string) => `${repoId}.${sha}`

const NONE_POSTED: Record<CommitState, number> = { pending: 0, success: 0, error: 0, failure: 0, warning: 0 }

export const commitChecksFold: Fold<CommitChecksDocument> = foldOf({
  collection: commitChecks,
  version: 1,
  ids: ({ data }) => [commitChecksId(data.repoId, data.sha)],
  becomes: {
    CommitStatusPosted(checks, { data: { repoId, sha, context, state, id } }) {
      const { latest, posted } = checks ?? { latest: [], posted: NONE_POSTED }
      const others = latest.filter((status) => status.context !== context)
      return {
        repoId,
        sha,
        latest: [{ context, state, id }, ...others],
        posted: { ...posted, [state]: posted[state] + 1 },
      }
    },
  },
})

export const commitChecksModel = readModel(commitChecksFold)
