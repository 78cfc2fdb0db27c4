/** Finds the issues and pull requests that a text references, and closes or reopens issues by its keywords. */

import { accessTo, atLeast } from '../../access/access.ts'
import { movedRepository, repositoryNamed } from '../../access/repository-access.ts'
import type { Reference, ReferenceAction } from '../../domain/markup/references.ts'
import { isRefusal } from '../../errors/refusal.ts'
import type { StatusCause } from '../../events/catalog/issues.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { issues } from '../execution/aggregates.ts'
import { type CommandContext, partOf } from '../execution/command-context.ts'
import { forEachSettled } from '../execution/for-each-settled.ts'
import { decideStatus } from './discussion.decider.ts'
import { statusChange } from './status-change.ts'

export interface ReferencedIssue {
  repository: RepositoryDocument
  issue: IssueDocument
  action: ReferenceAction
}

/**
 * Resolves references in a repository, each once. Finds only issues that the author may read, so that a text does not
 * reveal what exists.
 */
export async function referencedIssues(
  services: Services,
  repoId: number,
  author: AccountDocument,
  references: readonly Reference[],
): Promise<ReferencedIssue[]> {
  const places = [...new Set(references.map(({ place }) => place))]
  const found = await Promise.all(places.map((place) => repositoryAt(services, repoId, place)))
  const repositories = new Map(places.map((place, i) => [place, found[i]]))
  const named = references.flatMap(({ place, index, action }) => {
    const repository = repositories.get(place)
    if (repository === undefined || !atLeast(accessTo(repository, author), 'read')) return []
    return [{ repository, id: issueId(repository.id, index), action }]
  })
  const documents = await services.views.issues.getMany([...new Set(named.map(({ id }) => id))])
  const byId = new Map(documents.map((issue) => [issueId(issue.repoId, issue.index), issue]))
  const result = new Map<string, ReferencedIssue>()
  for (const { repository, id, action } of named) {
    const issue = byId.get(id)
    // `#1` and `owner/name#1` may be the same issue.
    if (issue !== undefined && (!result.has(id) || action !== 'none')) {
      result.set(id, { repository, issue, action })
    }
  }
  return [...result.values()]
}

async function repositoryAt(services: Services, repoId: number, place: string | null) {
  if (place === null) return services.views.repositories.get(`${repoId}`)
  const [owner = '', repo = ''] = place.split('/')
  return (
    (await repositoryNamed(services, { owner, repo })) ?? (await movedRepository(services, { owner, repo }))
  )
}

/** Returns whether the user may close an issue by a keyword, as by a request. Keywords do not close pull requests. */
export function mayChangeStatus({ repository, issue }: ReferencedIssue, by: AccountDocument): boolean {
  if (issue.isPull || repository.archived === true) return false
  const access = accessTo(repository, by)
  return atLeast(access, 'write') || (issue.posterId === by.id && atLeast(access, 'read'))
}

/** An issue to close or reopen, with its cause. */
export interface RequestedStatus {
  named: ReferencedIssue
  cause: StatusCause
}

/**
 * Closes and reopens issues. One that depends on open issues stays open, unless these are closed here, too. Idempotent
 * when the context has deterministic ids.
 */
export async function changeReferencedIssues(
  services: Services,
  context: CommandContext,
  wanted: readonly RequestedStatus[],
): Promise<void> {
  const blocked: RequestedStatus[] = []
  await forEachSettled(wanted, async (one) => {
    if (!(await changeReferencedIssue(services, context, one))) blocked.push(one)
  })
  if (blocked.length > 0 && blocked.length < wanted.length)
    await changeReferencedIssues(services, context, blocked)
}

/** Resolves to whether the issue has the requested status: other issues may block it. */
async function changeReferencedIssue(
  services: Services,
  context: CommandContext,
  { named: { issue, action }, cause }: RequestedStatus,
): Promise<boolean> {
  let isBlocked = false
  const own = partOf(context, `status of ${issueId(issue.repoId, issue.index)}`)
  await issues.change(services, own, issue, 'status by keyword', async (state) => {
    if (state.status === 'none') return []
    const change = await statusChange(services, own, state, action === 'closes')
    const decision = decideStatus(state, { ...change, cause })
    isBlocked = isRefusal(decision)
    return isRefusal(decision) ? [] : decision
  })
  return !isBlocked
}
