/** Branches with their commits, so that a list of branches needs no git. */
import type { CommitSummary } from '../../../events/catalog/branches.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { lastUpdateOf } from './moved-refs.ts'

export interface BranchDocument {
  repoId: number
  name: string
  commit: CommitSummary
}

const PREFIX = 'refs/heads/'

export const branchId = (repoId: number, name: string) => `${repoId}/${name}`

export const branchFold: Fold<BranchDocument> = foldOf({
  name: 'branches',
  indexes: [{ repoId: 1, name: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids({ data: { repoId, refs } }) {
    const heads = refs.filter((update) => update.ref.startsWith(PREFIX))
    return heads.map((update) => branchId(repoId, update.ref.slice(PREFIX.length)))
  },
  becomes: {
    RefsUpdated(_, { data: { repoId, refs, commits } }, id) {
      const name = id.slice(branchId(repoId, '').length)
      const to = lastUpdateOf(refs, PREFIX + name)?.to ?? null
      const commit = to === null ? undefined : commits.find(({ sha }) => sha === to)
      return commit === undefined ? undefined : { repoId, name, commit }
    },
  },
})
