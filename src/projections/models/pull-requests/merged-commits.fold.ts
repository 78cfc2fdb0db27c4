/** The commits of merges, by which a commit's pull request is found. */
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface MergedCommitDocument {
  repoId: number
  sha: string
  /** The number of the pull request. */
  index: number
}

export const mergedCommitId = (repoId: number, sha: string) => `${repoId}/${sha}`

export const mergedCommitFold: Fold<MergedCommitDocument> = foldOf({
  name: 'merged_commits',
  indexes: [{ repoId: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids: ({ data: { repoId, commit } }) => [mergedCommitId(repoId, commit)],
  becomes: {
    PullRequestMerged: (_, { data: { repoId, commit: sha, index } }) => ({ repoId, sha, index }),
  },
  begins: ['PullRequestMerged'],
})
