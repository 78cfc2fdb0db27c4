/** Follows dependencies between issues, as the log has them. */

import { Refused, refuse } from '../../errors/refusal.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { type Discussion, sameIssue } from '../../projections/models/issues/discussion.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { Services } from '../../services/services.ts'
import { issues, pulls } from '../execution/aggregates.ts'

/** At most this many issues are read to find a circle. */
const MAX_STEPS = 2000

/** The issue or pull request, folded from its stream. The read model says which of the two it is. */
export async function discussionOf(
  services: Services,
  { repoId, index }: IssueRef,
): Promise<Discussion | undefined> {
  const issue = await services.views.issues.get(issueId(repoId, index))
  if (issue === undefined) return undefined
  const state = await (issue.isPull ? pulls : issues).load(services, issue)
  return state.status === 'none' ? undefined : state
}

/**
 * Whether `from` depends on `to`, directly or through other issues.
 *
 * @throws Refused (unprocessable) when it depends on too many issues to read them all
 */
export async function dependsOn(services: Services, from: IssueRef, to: IssueRef): Promise<boolean> {
  const seen = new Map([[keyOf(from), from]])
  // The iteration of a map also visits entries that are added during it.
  for (const issue of seen.values()) {
    const { dependencies = [] } = (await discussionOf(services, issue)) ?? {}
    if (dependencies.some((dependency) => sameIssue(dependency, to))) return true
    for (const dependency of dependencies) seen.set(keyOf(dependency), dependency)
    if (seen.size > MAX_STEPS) {
      throw new Refused(refuse.unprocessable('the other issue depends on too many others'))
    }
  }
  return false
}

const keyOf = ({ repoId, index }: IssueRef) => `${repoId}.${index}`
