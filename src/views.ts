/** The views that queries read, one for each read model, and the models that keep them. */
import { type AccountDocument, accountModel, accounts } from './projections/accounts.ts'
import { type BranchDocument, branches, branchId, branchModel } from './projections/branches.ts'
import { chainFactModel } from './projections/chain-facts.ts'
import { type CommentDocument, commentModel, comments } from './projections/comments.ts'
import {
  type CommitChecksDocument,
  type CommitStatusDocument,
  commitChecks,
  commitChecksId,
  commitChecksModel,
  commitStatuses,
  commitStatusModel,
} from './projections/commit-statuses.ts'
import { type HistoryDocument, history, historyModel } from './projections/history.ts'
import { issueId } from './projections/issue-selection.ts'
import { type IssueTextDocument, issueTextModel, issueTexts } from './projections/issue-texts.ts'
import { type IssueDocument, issueModel, issues } from './projections/issues.ts'
import { type LabelDocument, labelModel, labels } from './projections/labels.ts'
import { type MilestoneDocument, milestoneModel, milestones } from './projections/milestones.ts'
import { moduleVersionsModel } from './projections/module-versions.ts'
import { type PullDocument, pullId, pullModel, pulls } from './projections/pulls.ts'
import type { ReadModel } from './projections/read-model.ts'
import type { ReadStore } from './projections/read-store.ts'
import { type RepositoryDocument, repositories, repositoryModel } from './projections/repositories.ts'
import { type TokenDocument, tokenModel, tokens } from './projections/tokens.ts'
import { upgradePlanModel } from './projections/upgrade-plans.ts'
import { createView, type View } from './projections/view.ts'

export interface Views {
  accounts: View<AccountDocument>
  tokens: View<TokenDocument>
  repositories: View<RepositoryDocument>
  branches: View<BranchDocument>
  pulls: View<PullDocument>
  issues: View<IssueDocument>
  issueTexts: View<IssueTextDocument>
  labels: View<LabelDocument>
  milestones: View<MilestoneDocument>
  commitStatuses: View<CommitStatusDocument>
  commitChecks: View<CommitChecksDocument>
  comments: View<CommentDocument>
  history: View<HistoryDocument>
}

export const READ_MODELS: readonly ReadModel[] = [
  accountModel,
  tokenModel,
  repositoryModel,
  branchModel,
  pullModel,
  issueModel,
  issueTextModel,
  labelModel,
  milestoneModel,
  commitStatusModel,
  commitChecksModel,
  commentModel,
  historyModel,
  upgradePlanModel,
  moduleVersionsModel,
  chainFactModel,
]

/** A name that is no read model's. */
export class UnknownReadModel extends Error {
  override readonly name = 'UnknownReadModel'
}

/** The read models with these names; all when none is named. @throws UnknownReadModel */
export function modelsNamed(names: readonly string[]): readonly ReadModel[] {
  const unknown = names.find((name) => !READ_MODELS.some((model) => model.name === name))
  if (unknown !== undefined) {
    const known = READ_MODELS.map(({ name }) => name).join(', ')
    throw new UnknownReadModel(`there is no read model ${unknown}; there are ${known}`)
  }
  return names.length === 0 ? READ_MODELS : READ_MODELS.filter(({ name }) => names.includes(name))
}

export function createViews(store: ReadStore): Views {
  return {
    accounts: createView(store, accounts, ({ id }) => `${id}`),
    tokens: createView(store, tokens, ({ id }) => `${id}`),
    repositories: createView(store, repositories, ({ id }) => `${id}`),
    branches: createView(store, branches, ({ repoId, name }) => branchId(repoId, name)),
    pulls: createView(store, pulls, ({ repoId, index }) => pullId(repoId, index)),
    issues: createView(store, issues, ({ repoId, index }) => issueId(repoId, index)),
    issueTexts: createView(store, issueTexts, ({ repoId, index }) => issueId(repoId, index)),
    labels: createView(store, labels, ({ id }) => `${id}`),
    milestones: createView(store, milestones, ({ id }) => `${id}`),
    commitStatuses: createView(store, commitStatuses, ({ id }) => `${id}`),
    commitChecks: createView(store, commitChecks, ({ repoId, sha }) => commitChecksId(repoId, sha)),
    comments: createView(store, comments, ({ id }) => `${id}`),
    history: createView(store, history, ({ position }) => `${position}`),
  }
}
