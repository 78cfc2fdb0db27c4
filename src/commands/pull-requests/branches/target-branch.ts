/** Checks a new base branch. */

import { Refused, refuse } from '../../../errors/refusal.ts'
import { diffStat, mergeBase } from '../../../git/commits/history.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { movedContent } from '../../reviews/compare-content.ts'
import { officialReviews } from '../../reviews/official-reviews.ts'
import { tryMerge } from '../check-mergeability.ts'
import type { ActivePull } from '../pull-request.decider.ts'
import { requireTip } from './branch-tips.ts'

/** Compares the new base branch with the head. @throws Refused (not found, unprocessable) */
export async function targetOf(services: Services, pull: ActivePull, branch: string) {
  const { head, base } = pull
  if (head.repoId === base.repoId && head.branch === branch) {
    throw new Refused(refuse.unprocessable('base: is the head branch, so there are no changes between them'))
  }
  const dir = gitDirOf(services, base.repoId)
  const sha = await requireTip(services, base.repoId, branch, 'base')
  const ancestor = await mergeBase(dir, sha, head.sha)
  if (ancestor === undefined) throw new Refused(refuse.unprocessable('head and base share no history'))
  const repository = await services.views.repositories.get(`${base.repoId}`)
  const [diff, merge, content, official] = await Promise.all([
    diffStat(dir, ancestor, head.sha),
    tryMerge(services, base.repoId, { ours: sha, theirs: head.sha }),
    movedContent(services, pull, repository, branch, { base: ancestor, head: head.sha }),
    repository && officialReviews(services, repository, branch, pull.reviews),
  ])
  return {
    base: { repoId: base.repoId, branch, sha },
    mergeBase: ancestor,
    diff,
    mergeable: merge?.kind === 'clean',
    conflicts: merge?.kind === 'conflicts' ? merge.files : [],
    content: { ...content, ...(official && { official }) },
  }
}
