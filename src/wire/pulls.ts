/** Pull requests on the wire, and the one in a path. */

import { type Static, Type } from 'typebox'
import type { BranchPoint, Permission } from '../events/domain-events.ts'
import { pathNumber } from '../http/path-number.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type PullDocument, pullId } from '../projections/pulls.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { type Access, atLeast } from '../rights/access.ts'
import { onRepository, type RepositoryAccess, type RepositoryRequest } from '../rights/repository-access.ts'
import type { AnswerServices } from '../services.ts'
import { isWorkInProgress } from '../work-in-progress.ts'
import { DISCUSSION_WIRE, type DiscussionSurroundings, discussionWire, namedNow } from './discussions.ts'
import { labelWire } from './labels.ts'
import { milestoneWire } from './milestones.ts'
import { Nullable } from './nullable.ts'
import { RepositoryWire, repositoryWire } from './repositories.ts'
import { UserWire, userWire } from './users.ts'

export const PullParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

const BranchPointWire = Type.Object({
  label: Type.String(),
  ref: Type.String(),
  sha: Type.String(),
  repo_id: Type.Integer(),
  repo: Nullable(RepositoryWire),
})

export const PullRequestWire = Type.Object({
  ...DISCUSSION_WIRE,
  url: Type.String(),
  requested_reviewers: Type.Array(UserWire),
  draft: Type.Boolean(),
  additions: Type.Integer(),
  deletions: Type.Integer(),
  changed_files: Type.Integer(),
  html_url: Type.String(),
  diff_url: Type.String(),
  patch_url: Type.String(),
  mergeable: Type.Boolean(),
  merged: Type.Boolean(),
  merged_at: Nullable(Type.String()),
  merge_commit_sha: Nullable(Type.String()),
  merged_by: Nullable(UserWire),
  allow_maintainer_edit: Type.Boolean(),
  base: BranchPointWire,
  head: BranchPointWire,
  merge_base: Type.String(),
})

/** What the rows of one list need beside their documents. */
interface PullSurroundings extends DiscussionSurroundings {
  /** Repositories of heads that the requester may read, by id: the base repository, and forks of it. */
  heads: ReadonlyMap<number, Static<typeof RepositoryWire>>
}

/** The document as Gitea's `PullRequest`. */
export function pullWire(pull: PullDocument, around: PullSurroundings): Static<typeof PullRequestWire> {
  const { repository, people, publicUrl } = around
  const page = `${publicUrl}/${repository.full_name}/pulls/${pull.index}`
  const headRepository = around.heads.get(pull.head.repoId) ?? null
  const branchPoint = ({ branch, sha }: BranchPoint, repo: Static<typeof RepositoryWire> | null) => ({
    label: branch,
    ref: branch,
    sha,
    repo_id: repo?.id ?? -1,
    repo,
  })
  // A literal that begins with a spread and adds fields to it takes V8 thirty times as long.
  return Object.assign(discussionWire(pull, around), {
    url: page,
    requested_reviewers: [],
    draft: isWorkInProgress(pull.title),
    additions: pull.diff.additions,
    deletions: pull.diff.deletions,
    changed_files: pull.diff.changedFiles,
    html_url: page,
    diff_url: `${page}.diff`,
    patch_url: `${page}.patch`,
    mergeable: pull.mergeable,
    merged: pull.merged !== null,
    merged_at: pull.merged?.at ?? null,
    merge_commit_sha: pull.merged?.commit ?? null,
    merged_by: pull.merged === null ? null : (people.get(pull.merged.by.id) ?? null),
    allow_maintainer_edit: pull.allowMaintainerEdit,
    base: branchPoint(pull.base, repository),
    head: branchPoint(pull.head, headRepository),
    merge_base: pull.mergeBase,
  })
}

/** Reads at once, whatever the number of rows, what they name: people, labels, milestones, forks; by default of now. */
export async function surroundings(
  services: AnswerServices,
  repository: RepositoryDocument,
  access: Access,
  pulls: readonly PullDocument[],
  requester: AccountDocument | null,
  named = namedNow(services),
): Promise<PullSurroundings> {
  const publicUrl = services.publicUrl()
  const idsOf = (naming: (pull: PullDocument) => readonly number[]) => [
    ...new Set(pulls.flatMap((pull) => naming(pull).map(String))),
  ]
  const forks = (
    await named.repositories.getMany(
      idsOf(({ head }) => (head.repoId === repository.id ? [] : [head.repoId])),
    )
  ).filter((fork) => atLeast(named.access(fork, requester), 'read'))
  const peopleIds = new Set([
    ...idsOf(({ poster, merged, assignees }) => [
      poster.id,
      ...(merged === null ? [] : [merged.by.id]),
      ...assignees.map(({ id }) => id),
    ]),
    ...[repository, ...forks].map(({ ownerId }) => `${ownerId}`),
  ])
  const [accounts, labels, milestones] = await Promise.all([
    named.accounts.getMany([...peopleIds]),
    named.labels.getMany(idsOf(({ labelIds }) => labelIds)),
    named.milestones.getMany(idsOf(({ milestoneId }) => (milestoneId === null ? [] : [milestoneId]))),
  ])
  const accountsById = new Map(accounts.map((account) => [account.id, account]))
  const owner = accountsById.get(repository.ownerId)
  if (owner === undefined) throw new Error(`repository ${repository.id} has no owner ${repository.ownerId}`)
  const wire = repositoryWire(repository, owner, access, publicUrl)
  const heads = new Map([[repository.id, wire]])
  for (const fork of forks) {
    const forkOwner = accountsById.get(fork.ownerId)
    if (forkOwner === undefined) continue
    heads.set(fork.id, repositoryWire(fork, forkOwner, named.access(fork, requester), publicUrl))
  }
  return {
    repository: wire,
    heads,
    people: new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)])),
    labels: new Map(labels.map((label) => [label.id, labelWire(label, repository, publicUrl)])),
    milestones: new Map(milestones.map((milestone) => [milestone.id, milestoneWire(milestone)])),
    publicUrl,
  }
}

/** The pull request in the path as its document, or 404. */
export async function pullFor(
  services: AnswerServices,
  repoId: number,
  index: string,
): Promise<PullDocument> {
  const number = pathNumber(index)
  const pull = number === undefined ? undefined : await services.views.pulls.get(pullId(repoId, number))
  if (pull === undefined) throw new Refused(refuse.notFound('pull request not found'))
  return pull
}

/**
 * The pull request in the request's path with its repository, for a requester who has at least that permission.
 * @throws Refused as `onRepository` does, and not found
 */
export async function onPull(
  services: AnswerServices,
  request: RepositoryRequest & { params: { index: string } },
  needed: Permission,
): Promise<RepositoryAccess & { pull: PullDocument }> {
  const found = await onRepository(services, request, needed)
  return { ...found, pull: await pullFor(services, found.repository.id, request.params.index) }
}
