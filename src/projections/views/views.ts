/** All read models, and the views through which queries read them. */

import { branchFold, branchId } from '../models/branches/branches.fold.ts'
import { otherRefFold, otherRefId } from '../models/branches/other-refs.fold.ts'
import { commentFold } from '../models/comments/comments.fold.ts'
import { historyFold } from '../models/history/history.fold.ts'
import { keyedEventFold } from '../models/history/keyed-events.fold.ts'
import { linkedEventFold } from '../models/history/linked-events.fold.ts'
import { erasureFold, erasureId } from '../models/issues/erasures.fold.ts'
import { issueFileFold } from '../models/issues/issue-files.fold.ts'
import { issueId } from '../models/issues/issue-selection.ts'
import { issueTextFold } from '../models/issues/issue-texts.fold.ts'
import { issueFold } from '../models/issues/issues.fold.ts'
import { referenceFold, referenceId } from '../models/issues/references.fold.ts'
import { gpgKeyFold } from '../models/keys/gpg-keys.fold.ts'
import { deployKeyFold, sshKeyFold } from '../models/keys/keys.fold.ts'
import { labelFold } from '../models/labels/labels.fold.ts'
import { lfsLockFold } from '../models/lfs/lfs-locks.fold.ts'
import { lfsObjectFold, lfsObjectId } from '../models/lfs/lfs-objects.fold.ts'
import { milestoneFold } from '../models/milestones/milestones.fold.ts'
import { activityFold } from '../models/notifications/activities.fold.ts'
import { participationFold, participationId } from '../models/notifications/participations.fold.ts'
import { teamFold } from '../models/organizations/teams.fold.ts'
import { mergedCommitFold, mergedCommitId } from '../models/pull-requests/merged-commits.fold.ts'
import { pullFold, pullId } from '../models/pull-requests/pulls.fold.ts'
import { reactionFold, reactionId } from '../models/reactions/reactions.fold.ts'
import { releaseFold } from '../models/releases/releases.fold.ts'
import { followFold, followId } from '../models/repositories/follows.fold.ts'
import { redirectFold } from '../models/repositories/redirects.fold.ts'
import { repositoryFold } from '../models/repositories/repositories.fold.ts'
import { topicFold } from '../models/repositories/topics.fold.ts'
import { reviewCommentFold } from '../models/reviews/review-comments.fold.ts'
import { reviewFold } from '../models/reviews/reviews.fold.ts'
import {
  commitChecksFold,
  commitChecksId,
  commitStatusFold,
} from '../models/statuses/commit-statuses.fold.ts'
import { tagProtectionFold } from '../models/tags/tag-protections.fold.ts'
import { tagFold, tagId } from '../models/tags/tags.fold.ts'
import { chainFactFold } from '../models/upgrade/chain-facts.fold.ts'
import { moduleVersionsFold } from '../models/upgrade/module-versions.fold.ts'
import { upgradePlanFold } from '../models/upgrade/upgrade-plans.fold.ts'
import { accountFold } from '../models/users/accounts.fold.ts'
import { tokenFold } from '../models/users/tokens.fold.ts'
import { webhookFold } from '../models/webhooks/webhooks.fold.ts'
import { type Fold, type ReadModel, readModel } from '../projector/read-model.ts'
import type { ReadStore } from '../store/read-store.ts'
import { createSharedLimit, type SharedLimit } from './shared-limit.ts'
import { createView, MAX_CHARACTERS_OF_ALL } from './view.ts'

/** Returns a read model and a function that creates its view. */
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
  otherRefs: viewed(otherRefFold, ({ repoId, ref }) => otherRefId(repoId, ref)),
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
  linkedEvents: viewed(linkedEventFold, ({ repoId, position }) => `${repoId}.${position}`),
}

export type Views = { [Name in keyof typeof VIEWED]: ReturnType<(typeof VIEWED)[Name]['view']> }

/**
 * Creates the views of a store, each with its own cache, within one limit of `characters`. `hasStopped` returns whether a read
 * model has stopped.
 */
export function createViews(
  store: ReadStore,
  hasStopped?: (model: string) => boolean,
  characters?: number,
): Views
export function createViews(
  store: ReadStore,
  hasStopped = (_model: string) => false,
  characters = MAX_CHARACTERS_OF_ALL,
) {
  const limit = createSharedLimit(characters)
  return Object.fromEntries(
    Object.entries(VIEWED).map(([name, { view }]) => [name, view(store, hasStopped, limit)]),
  )
}

/** All read models. The last five have no view: commands and the upgrade Query service read them directly. */
export const READ_MODELS: readonly ReadModel[] = [
  ...Object.values(VIEWED).map(({ model }) => model),
  readModel(issueTextFold),
  readModel(keyedEventFold),
  readModel(upgradePlanFold),
  readModel(moduleVersionsFold),
  readModel(chainFactFold),
]

export class UnknownReadModel extends Error {
  override readonly name = 'UnknownReadModel'
}

/** Returns the read models with these names; all for an empty list. @throws UnknownReadModel */
export function modelsNamed(names: readonly string[]): readonly ReadModel[] {
  const unknown = names.find((name) => !READ_MODELS.some((model) => model.name === name))
  if (unknown !== undefined) {
    const known = READ_MODELS.map(({ name }) => name).join(', ')
    throw new UnknownReadModel(`there is no read model ${unknown}; there are ${known}`)
  }
  return names.length === 0 ? READ_MODELS : READ_MODELS.filter(({ name }) => names.includes(name))
}
