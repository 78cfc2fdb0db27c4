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
import { issueId } from './projections/issue-selection.ts'
import { type IssueTextDocument, issueTextModel, issueTexts } from './projections/issue-texts.ts'
import { type IssueDocument, issueModel, issues } from './projections/issues.ts'
import { type LabelDocument, labelModel, labels } from './projections/labels.ts'
import { type MilestoneDocument, milestoneModel, milestones } from './projections/milestones.ts'
import { moduleVersionsModel } from './projections/module-versions.ts'
import { type PullDocument, pullId, pullModel, pulls } from './projections/pulls.ts'
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
}

export const READ_MODELS = [
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
  upgradePlanModel,
  moduleVersionsModel,
  chainFactModel,
]

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
  }
}
