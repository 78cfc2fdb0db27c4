/** All read models, and the views through which queries read them. */
import { accountModel } from './accounts.ts'
import { branchId, branchModel } from './branches.ts'
import { chainFactModel } from './chain-facts.ts'
import { commentModel } from './comments.ts'
import { commitChecksId, commitChecksModel, commitStatusModel } from './commit-statuses.ts'
import { historyModel } from './history.ts'
import { issueId } from './issue-selection.ts'
import { issueTextModel } from './issue-texts.ts'
import { issueModel } from './issues.ts'
import { labelModel } from './labels.ts'
import { milestoneModel } from './milestones.ts'
import { moduleVersionsModel } from './module-versions.ts'
import { pullId, pullModel } from './pulls.ts'
import type { ReadModel } from './read-model.ts'
import type { Collection, ReadStore } from './read-store.ts'
import { repositoryModel } from './repositories.ts'
import { tokenModel } from './tokens.ts'
import { upgradePlanModel } from './upgrade-plans.ts'
import { createView } from './view.ts'

/** A row of the table below: a read model and a function that creates its view. */
function viewed<D extends object>(model: ReadModel<Collection<D>>, idOf: (document: D) => string) {
  return { model, view: (store: ReadStore) => createView(store, model.collection, idOf) }
}

const byId = ({ id }: { id: number }) => `${id}`
const byIssue = ({ repoId, index }: { repoId: number; index: number }) => issueId(repoId, index)

const VIEWED = {
  accounts: viewed(accountModel, byId),
  tokens: viewed(tokenModel, byId),
  repositories: viewed(repositoryModel, byId),
  branches: viewed(branchModel, ({ repoId, name }) => branchId(repoId, name)),
  pulls: viewed(pullModel, ({ repoId, index }) => pullId(repoId, index)),
  issues: viewed(issueModel, byIssue),
  issueTexts: viewed(issueTextModel, byIssue),
  labels: viewed(labelModel, byId),
  milestones: viewed(milestoneModel, byId),
  commitStatuses: viewed(commitStatusModel, byId),
  commitChecks: viewed(commitChecksModel, ({ repoId, sha }) => commitChecksId(repoId, sha)),
  comments: viewed(commentModel, byId),
  history: viewed(historyModel, ({ position }) => `${position}`),
}

export type Views = { [Name in keyof typeof VIEWED]: ReturnType<(typeof VIEWED)[Name]['view']> }

/** Creates the views of a store, each with its own cache. */
export function createViews(store: ReadStore): Views
export function createViews(store: ReadStore) {
  return Object.fromEntries(Object.entries(VIEWED).map(([name, { view }]) => [name, view(store)]))
}

/** All read models. The upgrade module's gRPC Query service reads the last three, so they have no view. */
export const READ_MODELS: readonly ReadModel[] = [
  ...Object.values(VIEWED).map(({ model }) => model),
  upgradePlanModel,
  moduleVersionsModel,
  chainFactModel,
]

/** There is no read model with the given name. */
export class UnknownReadModel extends Error {
  override readonly name = 'UnknownReadModel'
}

/** The read models with these names; all of them when the list is empty. @throws UnknownReadModel */
export function modelsNamed(names: readonly string[]): readonly ReadModel[] {
  const unknown = names.find((name) => !READ_MODELS.some((model) => model.name === name))
  if (unknown !== undefined) {
    const known = READ_MODELS.map(({ name }) => name).join(', ')
    throw new UnknownReadModel(`there is no read model ${unknown}; there are ${known}`)
  }
  return names.length === 0 ? READ_MODELS : READ_MODELS.filter(({ name }) => names.includes(name))
}
