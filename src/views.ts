/** The views that queries read, one for each read model, and the models that keep them. */
import { type AccountDocument, accountModel, accounts } from './projections/accounts.ts'
import { type BranchDocument, branches, branchId, branchModel } from './projections/branches.ts'
import {
  type CommitChecksDocument,
  type CommitStatusDocument,
  commitChecks,
  commitChecksId,
  commitChecksModel,
  commitStatuses,
  commitStatusModel,
} from './projections/commit-statuses.ts'
import { type LabelDocument, labelModel, labels } from './projections/labels.ts'
import { type MilestoneDocument, milestoneModel, milestones } from './projections/milestones.ts'
import { type PullDocument, pullId, pullModel, pulls } from './projections/pulls.ts'
import type { ReadStore } from './projections/read-store.ts'
import { type RepositoryDocument, repositories, repositoryModel } from './projections/repositories.ts'
import { type TokenDocument, tokenModel, tokens } from './projections/tokens.ts'
import { createView, type View } from './projections/view.ts'

export interface Views {
  accounts: View<AccountDocument>
  tokens: View<TokenDocument>
  repositories: View<RepositoryDocument>
  branches: View<BranchDocument>
  pulls: View<PullDocument>
  labels: View<LabelDocument>
  milestones: View<MilestoneDocument>
  commitStatuses: View<CommitStatusDocument>
  commitChecks: View<CommitChecksDocument>
}

export const READ_MODELS = [
  accountModel,
  tokenModel,
  repositoryModel,
  branchModel,
  pullModel,
  labelModel,
  milestoneModel,
  commitStatusModel,
  commitChecksModel,
]

export function createViews(store: ReadStore): Views {
  return {
    accounts: createView(store, accounts, ({ id }) => `${id}`),
    tokens: createView(store, tokens, ({ id }) => `${id}`),
    repositories: createView(store, repositories, ({ id }) => `${id}`),
    branches: createView(store, branches, ({ repoId, name }) => branchId(repoId, name)),
    pulls: createView(store, pulls, ({ repoId, index }) => pullId(repoId, index)),
    labels: createView(store, labels, ({ id }) => `${id}`),
    milestones: createView(store, milestones, ({ id }) => `${id}`),
    commitStatuses: createView(store, commitStatuses, ({ id }) => `${id}`),
    commitChecks: createView(store, commitChecks, ({ repoId, sha }) => commitChecksId(repoId, sha)),
  }
}
