/** The statuses of commits: every posted status, and the current state of each commit's checks. */
import type { CommitState, CommitStatus } from '../../../events/catalog/statuses.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export type CommitStatusDocument = CommitStatus & { createdAt: string }

export const commitStatusFold: Fold<CommitStatusDocument> = foldOf({
  name: 'commit_statuses',
  indexes: [
    { repoId: 1, sha: 1, id: 1 },
    { repoId: 1, sha: 1, state: 1, id: 1 },
  ],
  version: 1,
  staysUntilRemoved: true,
  ids: ({ data }) => [`${data.id}`],
  becomes: {
    CommitStatusPosted: (_, { data, metadata }) => ({ ...data, createdAt: metadata.at }),
  },
  begins: ['CommitStatusPosted'],
})

/** The current checks of one commit, in short form. */
export interface CommitChecksDocument {
  repoId: number
  sha: string
  /** The latest status of each context, the newest first. */
  latest: { context: string; state: CommitState; id: number }[]
  /** The number of posted statuses in each state, for the totals of lists. */
  posted: Record<CommitState, number>
}

export const commitChecksId = (repoId: number, sha: string) => `${repoId}.${sha}`

const NONE_POSTED: Record<CommitState, number> = {
  pending: 0,
  success: 0,
  error: 0,
  failure: 0,
  warning: 0,
  skipped: 0,
}

export const commitChecksFold: Fold<CommitChecksDocument> = foldOf({
  name: 'commit_checks',
  indexes: [{ repoId: 1 }],
  version: 2,
  staysUntilRemoved: true,
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
