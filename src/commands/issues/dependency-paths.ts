/** Follows dependencies between issues in the log. */

import { Refused, refuse } from '../../errors/refusal.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { type Discussion, sameIssue } from '../../projections/models/issues/discussion.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { Services } from '../../services/services.ts'
import { issues, pulls } from '../execution/aggregates.ts'

/** Maximum number of issues that are read to find a cycle. */
const MAX_STEPS = 2000

/** Folds an issue or pull request from its stream. The read model tells which of the two it is. */
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
 * Returns whether `from` depends on `to`, directly or through other issues.
 * @throws Refused (unprocessable) when it depends on too many issues
 */
export async function dependsOn(services: Services, from: IssueRef, to: IssueRef): Promise<boolean> {
  const seen = new Map([[keyOf(from), from]])
  // The iteration also visits entries that are added during it.
  for (const issue of seen.values()) {
    const { dependencies = [] } = (await discussionOf(services, issue)) ?? {}
    if (dependencies.some((dependency) => sameIssue(dependency, to))) return true
    for (const dependency of dependencies) seen.set(keyOf(dependency), dependency)
    if (seen.size > MAX_STEPS) {
      throw new Refused(refuse.unprocessable('the other issue depends on too many issues'))
    }
  }
  return false
}

const keyOf = ({ repoId, index }: IssueRef) => `${repoId}.${index}`
