/** Branches with their commits, so that a list of branches needs no git. */
import type { CommitSummary } from '../events/domain-events.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface BranchDocument {
  repoId: number
  name: string
  commit: CommitSummary
}

export const branches: Collection<BranchDocument> = {
  name: 'branches',
  indexes: [
    [
      ['repoId', 1],
      ['name', 1],
    ],
  ],
  arrays: [],
}

const PREFIX = 'refs/heads/'

export const branchId = (repoId: number, name: string) => `${repoId}/${name}`

export const branchFold: Fold<BranchDocument> = foldOf({
  collection: branches,
  version: 1,
  ids({ data: { repoId, refs } }) {
    const heads = refs.filter((update) => update.ref.startsWith(PREFIX))
    return heads.map((update) => branchId(repoId, update.ref.slice(PREFIX.length)))
  },
  becomes: {
    RefsUpdated(_, { data: { repoId, refs } }, id) {
      const name = id.slice(branchId(repoId, '').length)
      const update = refs.findLast((candidate) => candidate.ref === PREFIX + name)
      return update?.commit == null ? undefined : { repoId, name, commit: update.commit }
    },
  },
})

export const branchModel = readModel(branchFold)
