/** Where dependencies lead, as the log has them. */
import type { IssueRef } from '../../events/domain-events.ts'
import { issueStream, pullStream } from '../../events/streams.ts'
import { type Discussion, sameIssue } from '../../projections/discussion.ts'
import { issueId } from '../../projections/issue-selection.ts'
import { Refused, refuse } from '../../refusal.ts'
import type { Services } from '../../services.ts'
import { load } from '../execute.ts'
import { pullDecider } from '../pull-requests/pull-request.ts'
import { issueDecider } from './issue.ts'

/** Most issues that are looked at to find a circle. */
const MAX_STEPS = 2000

/** The discussion as its stream has it; what kind of stream that is, the read model knows. */
export async function discussionOf(
  { events, views }: Services,
  { repoId, index }: IssueRef,
): Promise<Discussion | undefined> {
  const issue = await views.issues.get(issueId(repoId, index))
  if (issue === undefined) return undefined
  const { state } = issue.isPull
    ? await load(events, pullStream(repoId, index), pullDecider)
    : await load(events, issueStream(repoId, index), issueDecider)
  return state.status === 'none' ? undefined : state
}

/**
 * Whether `from` depends on `to`, directly or by way of others.
 *
 * @throws Refused (unprocessable) when there are too many others to look at
 */
export async function dependsOn(services: Services, from: IssueRef, to: IssueRef): Promise<boolean> {
  const seen = new Map([[keyOf(from), from]])
  // A map goes on to what is added to it on the way.
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
