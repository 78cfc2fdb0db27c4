/** Compares the changes of a pull request now with those that were reviewed, or with those before a move. */

import { protectionOf } from '../../access/protection-rules.ts'
import { reviewRulesOf } from '../../access/review-rules.ts'
import { mergeBase } from '../../git/commits/history.ts'
import { type Change, hasContentChanged } from '../../git/diff/content-change.ts'
import { GitFailed, GitOutputTooLarge, GitTookTooLong } from '../../git/process/errors.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { ActivePull } from '../pull-requests/pull-request.decider.ts'
import type { MovedContent } from './outdated-reviews.decider.ts'

/** Whether git cannot answer later either: a commit is missing, or the difference is too large. */
const cannotTell = (error: unknown) =>
  error instanceof GitFailed || error instanceof GitTookTooLong || error instanceof GitOutputTooLarge

/**
 * Returns whether two changes differ; true when git cannot tell.
 * @throws errors of git that may pass: a busy server must not make an approval stale
 */
export async function contentChanged(
  services: Services,
  repoId: number,
  before: Change,
  after: Change,
): Promise<boolean> {
  try {
    return await hasContentChanged(gitDirOf(services, repoId), before, after)
  } catch (error) {
    if (!cannotTell(error)) throw error
    services.log.warn({ err: error, before, after }, 'cannot tell whether a pull request has changed')
    return true
  }
}

/** Returns the change of a pull request. */
export const changeOf = ({ mergeBase, head }: Pick<ActivePull, 'mergeBase' | 'head'>): Change => ({
  base: mergeBase,
  head: head.sha,
})

/** Returns how a move to `after` affects reviews, by the base branch's rules. Without reviews it does not ask git. */
export async function movedContent(
  services: Services,
  pull: ActivePull,
  repository: RepositoryDocument | undefined,
  baseBranch: string,
  after: Change,
): Promise<MovedContent> {
  if (pull.reviews.length === 0) return { changed: true, dismissStale: false }
  return {
    changed: await contentChanged(services, pull.repoId, changeOf(pull), after),
    dismissStale: dismissesStale(repository, baseBranch),
  }
}

export const dismissesStale = (repository: RepositoryDocument | undefined, baseBranch: string): boolean =>
  reviewRulesOf(protectionOf(repository?.protections ?? [], baseBranch)).dismissStale

/** Returns the merge base of a reviewed commit; undefined when git cannot tell. @throws as `contentChanged` */
export async function reviewedMergeBase(
  services: Services,
  pull: ActivePull,
  commit: string,
): Promise<string | undefined> {
  if (commit === pull.head.sha) return pull.mergeBase
  try {
    return await mergeBase(gitDirOf(services, pull.repoId), pull.mergeBase, commit)
  } catch (error) {
    if (!cannotTell(error)) throw error
    services.log.warn({ err: error, commit }, 'cannot find the merge base of a reviewed commit')
    return undefined
  }
}
