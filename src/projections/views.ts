/** All read models, and the views through which queries read them. */

import { accountFold } from './accounts.ts'
import { activityFold } from './activities.ts'
import { branchFold, branchId } from './branches.ts'
import { chainFactFold } from './chain-facts.ts'
import { commentFold } from './comments.ts'
import { commitChecksFold, commitChecksId, commitStatusFold } from './commit-statuses.ts'
import { erasureFold, erasureId } from './erasures.ts'
import { followFold, followId } from './follows.ts'
import { gpgKeyFold } from './gpg-keys.ts'
import { historyFold } from './history.ts'
import { issueFileFold } from './issue-files.ts'
import { issueId } from './issue-selection.ts'
import { issueTextFold } from './issue-texts.ts'
import { issueFold } from './issues.ts'
import { keyedEventFold } from './keyed-events.ts'
import { deployKeyFold, sshKeyFold } from './keys.ts'
import { labelFold } from './labels.ts'
import { lfsLockFold } from './lfs-locks.ts'
import { lfsObjectFold, lfsObjectId } from './lfs-objects.ts'
import { mergedCommitFold, mergedCommitId } from './merged-commits.ts'
import { milestoneFold } from './milestones.ts'
import { moduleVersionsFold } from './module-versions.ts'
import { participationFold, participationId } from './participations.ts'
import { pullFold, pullId } from './pulls.ts'
import { reactionFold, reactionId } from './reactions.ts'
import { type Fold, type ReadModel, readModel } from './read-model.ts'
import type { ReadStore } from './read-store.ts'
import { redirectFold } from './redirects.ts'
import { referenceFold, referenceId } from './references.ts'
import { releaseFold } from './releases.ts'
import { repositoryFold } from './repositories.ts'
import { reviewCommentFold } from './review-comments.ts'
import { reviewFold } from './reviews.ts'
import { createSharedLimit, type SharedLimit } from './shared-limit.ts'
import { tagProtectionFold } from './tag-protections.ts'
import { tagFold, tagId } from './tags.ts'
import { teamFold } from './teams.ts'
import { tokenFold } from './tokens.ts'
import { topicFold } from './topics.ts'
import { upgradePlanFold } from './upgrade-plans.ts'
import { createView, MAX_CHARACTERS_OF_ALL } from './view.ts'
import { webhookFold } from './webhooks.ts'

/** A row of the table below: a read model and a function that creates its view. */
function viewed<D extends object>(fold: Fold<D>, idOf: (document: D) => string) {
  const model = readModel(fold)
  return {
    model,
    view: (store: ReadStore, hasStopped: (model: string) => boolean, limit: SharedLimit) =>
      createView(store, fold.collection, idOf, () => hasStopped(model.name), limit),
  }
}

const byId = ({ id }: { id: number }) => `${id}`
const byIssue = ({ repoId, index }: { repoId: number; index: number }) => issueId(repoId, index)

const VIEWED = {
  accounts: viewed(accountFold, byId),
  tokens: viewed(tokenFold, byId),
  repositories: viewed(repositoryFold, byId),
  redirects: viewed(redirectFold, ({ key }) => key),
  branches: viewed(branchFold, ({ repoId, name }) => branchId(repoId, name)),
  tags: viewed(tagFold, ({ repoId, name }) => tagId(repoId, name)),
  tagProtections: viewed(tagProtectionFold, ({ repoId }) => `${repoId}`),
  pulls: viewed(pullFold, ({ repoId, index }) => pullId(repoId, index)),
  mergedCommits: viewed(mergedCommitFold, ({ repoId, sha }) => mergedCommitId(repoId, sha)),
  issues: viewed(issueFold, byIssue),
  labels: viewed(labelFold, byId),
  milestones: viewed(milestoneFold, byId),
  commitStatuses: viewed(commitStatusFold, byId),
  commitChecks: viewed(commitChecksFold, ({ repoId, sha }) => commitChecksId(repoId, sha)),
  comments: viewed(commentFold, byId),
  lfsObjects: viewed(lfsObjectFold, ({ repoId, oid }) => lfsObjectId(repoId, oid)),
  lfsLocks: viewed(lfsLockFold, byId),
  webhooks: viewed(webhookFold, byId),
  teams: viewed(teamFold, byId),
  reviews: viewed(reviewFold, byId),
  reviewComments: viewed(reviewCommentFold, byId),
  issueFiles: viewed(issueFileFold, byIssue),
  releases: viewed(releaseFold, byId),
  topics: viewed(topicFold, ({ name }) => name),
  reactions: viewed(reactionFold, reactionId),
  follows: viewed(followFold, ({ repoId, userId }) => followId(repoId, userId)),
  sshKeys: viewed(sshKeyFold, byId),
  gpgKeys: viewed(gpgKeyFold, byId),
  deployKeys: viewed(deployKeyFold, byId),
  participations: viewed(participationFold, (document) => participationId(document, document.userId)),
  activities: viewed(activityFold, byIssue),
  references: viewed(referenceFold, referenceId),
  erasures: viewed(erasureFold, erasureId),
  history: viewed(historyFold, ({ position }) => `${position}`),
}

export type Views = { [Name in keyof typeof VIEWED]: ReturnType<(typeof VIEWED)[Name]['view']> }

/** Creates the views of a store, each with its own cache, within one limit. `hasStopped`: whether the read model with a name has. */
export function createViews(store: ReadStore, hasStopped?: (model: string) => boolean): Views
export function createViews(store: ReadStore, hasStopped = (_model: string) => false) {
  const limit = createSharedLimit(MAX_CHARACTERS_OF_ALL)
  return Object.fromEntries(
    Object.entries(VIEWED).map(([name, { view }]) => [name, view(store, hasStopped, limit)]),
  )
}

/**
 * All read models. The last five have no view: the words are read with the issues, the events with keys by commands, and
 * the others by the upgrade module's gRPC Query service.
 */
export const READ_MODELS: readonly ReadModel[] = [
  ...Object.values(VIEWED).map(({ model }) => model),
  readModel(issueTextFold),
  readModel(keyedEventFold),
  readModel(upgradePlanFold),
  readModel(moduleVersionsFold),
  readModel(chainFactFold),
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
