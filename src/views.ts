/** The views that queries read, one for each read model, and the models that keep them. */
import { type AccountDocument, accountModel, accounts } from './projections/accounts.ts'
import { type BranchDocument, branches, branchId, branchModel } from './projections/branches.ts'
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
}

export const READ_MODELS = [accountModel, tokenModel, repositoryModel, branchModel, pullModel]

export function createViews(store: ReadStore): Views {
  return {
    accounts: createView(store, accounts, ({ id }) => `${id}`),
    tokens: createView(store, tokens, ({ id }) => `${id}`),
    repositories: createView(store, repositories, ({ id }) => `${id}`),
    branches: createView(store, branches, ({ repoId, name }) => branchId(repoId, name)),
    pulls: createView(store, pulls, ({ repoId, index }) => pullId(repoId, index)),
  }
}
