/** Issues on the wire, and the one in a path. Pull requests are issues too, as in Gitea. */

import { type Static, Type } from 'typebox'
import type { Permission } from '../events/domain-events.ts'
import { pathNumber } from '../http/path-number.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { issueId } from '../projections/issue-selection.ts'
import type { IssueDocument } from '../projections/issues.ts'
import { type LabelDocument, scopeKey } from '../projections/labels.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { atLeast } from '../rights/access.ts'
import { onRepository, type RepositoryAccess, type RepositoryRequest } from '../rights/repository-access.ts'
import type { AnswerServices, Services } from '../services.ts'
import { isWorkInProgress } from '../work-in-progress.ts'
import {
  DISCUSSION_WIRE,
  type DiscussionSurroundings,
  discussionWire,
  namedNow,
  present,
} from './discussions.ts'
import { givenIn, type LabelWire, labelWire } from './labels.ts'
import { milestoneWire } from './milestones.ts'
import { Nullable } from './nullable.ts'
import { repositoryWire } from './repositories.ts'
import { userWire } from './users.ts'

export const IssueWire = Type.Object({
  ...DISCUSSION_WIRE,
  url: Type.String(),
  html_url: Type.String(),
  original_author: Type.String(),
  original_author_id: Type.Integer(),
  ref: Type.String(),
  assets: Type.Array(Type.Object({})),
  /** Null for what is no pull request. */
  pull_request: Nullable(
    Type.Object({
      merged: Type.Boolean(),
      merged_at: Nullable(Type.String()),
      draft: Type.Boolean(),
      html_url: Type.String(),
    }),
  ),
  repository: Type.Object({
    id: Type.Integer(),
    name: Type.String(),
    owner: Type.String(),
    full_name: Type.String(),
  }),
})

/** An issue, or the issue behind a pull request, as Gitea's `Issue`. */
function issueWire(issue: IssueDocument, around: DiscussionSurroundings): Static<typeof IssueWire> {
  const { id, name, owner, full_name } = around.repository
  const page = `${around.publicUrl}/${full_name}/${issue.isPull ? 'pulls' : 'issues'}/${issue.index}`
  // A literal that begins with a spread and adds fields to it takes V8 thirty times as long.
  return Object.assign(discussionWire(issue, around), {
    url: `${around.publicUrl}/api/v1/repos/${full_name}/issues/${issue.index}`,
    html_url: page,
    original_author: '',
    original_author_id: 0,
    ref: '',
    assets: [],
    pull_request: issue.isPull
      ? {
          merged: issue.mergedAt !== null,
          merged_at: issue.mergedAt,
          draft: isWorkInProgress(issue.title),
          html_url: page,
        }
      : null,
    repository: { id, name, owner: owner.login, full_name },
  })
}

export const IssueParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

/** The issue or pull request with that number, or 404. */
export async function issueFor(
  services: AnswerServices,
  repoId: number,
  index: string,
): Promise<IssueDocument> {
  const number = pathNumber(index)
  const issue = number === undefined ? undefined : await services.views.issues.get(issueId(repoId, number))
  if (issue === undefined) throw new Refused(refuse.notFound('issue not found'))
  return issue
}

/**
 * Issues of any repositories, in their order, with all that they name read at once. Those of repositories
 * that the requester may not read are left out. `named`: by default of now.
 */
export async function issueWires(
  services: AnswerServices,
  issues: readonly IssueDocument[],
  requester: AccountDocument | null,
  named = namedNow(services),
): Promise<Static<typeof IssueWire>[]> {
  const publicUrl = services.publicUrl()
  const idsOf = (naming: (issue: IssueDocument) => readonly number[]) => [
    ...new Set(issues.flatMap((issue) => naming(issue).map(String))),
  ]
  const repositories = (await named.repositories.getMany(idsOf(({ repoId }) => [repoId]))).filter(
    (repository) => atLeast(named.access(repository, requester), 'read'),
  )
  const peopleIds = new Set([
    ...idsOf(({ posterId, assigneeIds }) => [posterId, ...assigneeIds]),
    ...repositories.map(({ ownerId }) => `${ownerId}`),
  ])
  const [accounts, labels, milestones] = await Promise.all([
    named.accounts.getMany([...peopleIds]),
    named.labels.getMany(idsOf(({ labelIds }) => labelIds)),
    named.milestones.getMany(idsOf(({ milestoneId }) => (milestoneId === null ? [] : [milestoneId]))),
  ])
  const accountsById = new Map(accounts.map((account) => [account.id, account]))
  const people = new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
  const milestoneWires = new Map(milestones.map((milestone) => [milestone.id, milestoneWire(milestone)]))
  const labelsOf = new Map<string, LabelDocument[]>()
  for (const label of labels) {
    const others = labelsOf.get(label.scopeKey) ?? []
    others.push(label)
    labelsOf.set(label.scopeKey, others)
  }
  const around = new Map(
    repositories.flatMap((repository) => {
      const owner = accountsById.get(repository.ownerId)
      if (owner === undefined) return []
      const wire = repositoryWire(repository, owner, named.access(repository, requester), publicUrl)
      const given = givenIn(repository).flatMap((scope) => labelsOf.get(scopeKey(scope)) ?? [])
      const own = given.map((label) => [label.id, labelWire(label, repository, publicUrl)] as const)
      const names = { people, labels: new Map(own), milestones: milestoneWires, publicUrl }
      return [[repository.id, { repository: wire, ...names }] as const]
    }),
  )
  return present(
    issues.map((issue) => {
      const surroundings = around.get(issue.repoId)
      return surroundings && issueWire(issue, surroundings)
    }),
  )
}

/** The labels that the issue in the path has, without those that were deleted since. 404 when there is no issue. */
export async function labelsOfIssue(
  services: Services,
  repository: RepositoryDocument,
  index: string,
): Promise<Static<typeof LabelWire>[]> {
  const { labelIds } = await issueFor(services, repository.id, index)
  const labels = await services.views.labels.getMany(labelIds.map(String))
  return labels.map((label) => labelWire(label, repository, services.publicUrl()))
}

/**
 * The issue or pull request in the request's path with its repository, for a requester who has at least that permission.
 * @throws Refused as `onRepository` does, and not found
 */
export async function onIssue(
  services: AnswerServices,
  request: RepositoryRequest & { params: { index: string } },
  needed: Permission,
): Promise<RepositoryAccess & { issue: IssueDocument }> {
  const found = await onRepository(services, request, needed)
  return { ...found, issue: await issueFor(services, found.repository.id, request.params.index) }
}
