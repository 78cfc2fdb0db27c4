/** Pull requests on the wire, and the look-up of the pull request in a path. */
import { type Static, Type } from 'typebox'
import {
  onRepository,
  type RepositoryAccess,
  type RepositoryRequest,
} from '../../access/repository-access.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { isWorkInProgress } from '../../domain/work-in-progress.ts'
import type { Permission } from '../../events/catalog/organizations.ts'
import type { BranchPoint } from '../../events/catalog/pull-requests.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { type PullDocument, pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { AnswerServices } from '../../services/services.ts'
import { cachedRow } from '../cached-rows.ts'
import { DISCUSSION_WIRE, discussionWire } from '../issues/discussions.ts'
import { Nullable } from '../nullable.ts'
import { PlainTeamWire } from '../organizations/teams.ts'
import {
  currentDocuments,
  type DocumentSource,
  type RelatedDocuments,
  readableRepositories,
  relatedDocuments,
} from '../related-documents.ts'
import { type PlainRepositoryWire, RepositoryWire } from '../repositories/repositories.ts'
import { UserWire } from '../users/users.ts'

export const PullParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

const BranchPointWire = Type.Object(
  {
    label: Type.String(),
    ref: Type.String(),
    sha: Type.String(),
    repo_id: Type.Integer(),
    repo: Nullable(RepositoryWire),
  },
  { title: 'PRBranchInfo' },
)

export const PullRequestWire = Type.Object(
  {
    ...DISCUSSION_WIRE,
    /** Empty without assignees, as in Gitea, where an issue has null. */
    assignees: Type.Array(UserWire),
    url: Type.String(),
    requested_reviewers: Type.Array(UserWire),
    requested_reviewers_teams: Type.Array(PlainTeamWire),
    draft: Type.Boolean(),
    review_comments: Type.Integer({ description: 'Number of comments on lines' }),
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
  },
  { title: 'PullRequest' },
)

/** Returns a pull request as Gitea's `PullRequest`. @throws Error when `related` lacks its repository */
function wireOf(pull: PullDocument, related: RelatedDocuments): Static<typeof PullRequestWire> {
  const repository = related.repositories.get(pull.repoId)
  if (repository === undefined)
    throw new Error(`repository ${pull.repoId} is not among the related ones, or has no owner`)
  const page = `${related.publicUrl}/${repository.full_name}/pulls/${pull.index}`
  const headRepository = related.repositories.get(pull.head.repoId) ?? null
  const branchPoint = ({ branch, sha }: BranchPoint, repo: Static<typeof PlainRepositoryWire> | null) => ({
    label: branch,
    ref: branch,
    sha,
    repo_id: repo?.id ?? -1,
    repo,
  })
  // V8 is about thirty times slower at a literal that begins with a spread and then adds fields.
  const discussion = discussionWire(pull, related)
  const draft = isWorkInProgress(pull.title)
  return Object.assign(discussion, {
    assignees: discussion.assignees ?? [],
    url: page,
    requested_reviewers: pull.requestedReviewers.flatMap(({ id }) => related.people.get(id) ?? []),
    requested_reviewers_teams: (pull.requestedTeams ?? []).flatMap(({ id }) => related.teams.get(id) ?? []),
    draft,
    review_comments: pull.reviewComments,
    additions: pull.diff.additions,
    deletions: pull.diff.deletions,
    changed_files: pull.diff.changedFiles,
    html_url: page,
    diff_url: `${page}.diff`,
    patch_url: `${page}.patch`,
    mergeable: pull.mergeable && !draft,
    merged: pull.merged !== null,
    merged_at: wholeSeconds(pull.merged?.at ?? null),
    merge_commit_sha: pull.merged?.commit ?? null,
    merged_by: pull.merged === null ? null : (related.people.get(pull.merged.by.id) ?? null),
    allow_maintainer_edit: pull.allowMaintainerEdit,
    base: branchPoint(pull.base, repository),
    head: branchPoint(pull.head, headRepository),
    merge_base: pull.mergeBase,
  })
}

const pullRow = cachedRow(wireOf)

/** Returns pull requests of one repository, by default from present documents. */
export async function pullWires(
  services: AnswerServices,
  repository: RepositoryDocument,
  pulls: readonly PullDocument[],
  requester: AccountDocument | null,
  source = currentDocuments(services),
): Promise<Static<typeof PullRequestWire>[]> {
  const forkIds = pulls.flatMap(({ head }) => (head.repoId === repository.id ? [] : [head.repoId]))
  const forks = await readableRepositories(source, forkIds, requester)
  const teams = pulls.flatMap(({ requestedTeams = [] }) => requestedTeams.map(({ id }) => id))
  const related = await relatedDocuments(source, pulls, {
    repositories: [repository, ...forks],
    people: pulls.flatMap(({ merged, requestedReviewerIds }) => [
      ...(merged === null ? [] : [merged.by.id]),
      ...requestedReviewerIds,
    ]),
    teams,
    requester,
    publicUrl: services.publicUrl(),
  })
  return pulls.map((pull) => pullRow(pull, related))
}

/** Returns one pull request, by default from present documents. */
export async function pullWire(
  services: AnswerServices,
  repository: RepositoryDocument,
  pull: PullDocument,
  requester: AccountDocument | null,
  source?: DocumentSource,
): Promise<Static<typeof PullRequestWire>> {
  const [wire] = await pullWires(services, repository, [pull], requester, source)
  if (wire === undefined) throw new Error(`pull request ${pull.repoId}.${pull.index} has no wire form`)
  return wire
}

/** Returns the pull request with that number. @throws Refused (not found) */
export async function pullFor(
  services: AnswerServices,
  repoId: number,
  index: string,
): Promise<PullDocument> {
  const number = pathNumber(index)
  const pull = number === undefined ? undefined : await services.views.pulls.get(pullId(repoId, number))
  if (pull === undefined) throw notFoundIn(services.views.pulls, 'pull request not found')
  return pull
}

/**
 * Returns the pull request in the request's path, with its repository. The requester must have the permission.
 * @throws Refused as `onRepository` does; not found when the pull request is unknown
 */
export async function onPull(
  services: AnswerServices,
  request: RepositoryRequest & { params: { index: string } },
  needed: Permission,
): Promise<RepositoryAccess & { pull: PullDocument }> {
  const found = await onRepository(services, request, needed)
  return { ...found, pull: await pullFor(services, found.repository.id, request.params.index) }
}
