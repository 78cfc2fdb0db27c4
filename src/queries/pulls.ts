/** Pull requests on the wire: one, and lists of them. A list is one indexed read; no git process is started. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { isWorkInProgress } from '../commands/pull-requests/pull-request.ts'
import { Refused, refuse } from '../commands/refusal.ts'
import type { BranchPoint } from '../events/domain-events.ts'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { pathNumber } from '../http/path-number.ts'
import { repositoryFor } from '../http/requests.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type PullDocument, pullId } from '../projections/pulls.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { AnswerServices, Services } from '../services.ts'
import { Nullable } from '../wire/nullable.ts'
import { type Access, atLeast } from './access.ts'
import {
  DISCUSSION_WIRE,
  type DiscussionSurroundings,
  discussionWire,
  namedNow,
  present,
} from './issue-wire.ts'
import { labelWire } from './labels.ts'
import { milestoneWire } from './milestones.ts'
import { RepositoryParams, RepositoryWire, repositoryWire } from './repositories.ts'
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
export interface PullSurroundings extends DiscussionSurroundings {
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

const NEWEST: Sort<PullDocument> = [['index', -1]]
const SORTS: ReadonlyMap<string, Sort<PullDocument>> = new Map([
  ['oldest', [['index', 1]]],
  [
    'recentupdate',
    [
      ['updatedAt', -1],
      ['index', -1],
    ],
  ],
  [
    'leastupdate',
    [
      ['updatedAt', 1],
      ['index', 1],
    ],
  ],
  [
    'mostcomment',
    [
      ['comments', -1],
      ['index', -1],
    ],
  ],
  [
    'leastcomment',
    [
      ['comments', 1],
      ['index', 1],
    ],
  ],
  ['priority', NEWEST],
])

const ListQuery = Type.Object({
  state: Type.Optional(Type.String({ description: 'open (default), closed or all' })),
  sort: Type.Optional(Type.String({ description: [...SORTS.keys()].join(', ') })),
  milestone: Type.Optional(Type.String({ description: 'id of a milestone' })),
  labels: Type.Optional(
    Type.Union([Type.String(), Type.Array(Type.String())], {
      description: 'ids of labels, all of which it must have; repeatable',
    }),
  ),
  ...PageQuery,
})

/**
 * What a list shows. Unknown states select the open ones, as in Gitea; milestones and labels that are no
 * positive whole number select nothing more than if they were not there.
 */
function selectionOf(repoId: number, query: Static<typeof ListQuery>): Filter<PullDocument> {
  const filter: Filter<PullDocument> = { repoId }
  if (query.state === 'closed') filter.state = 'closed'
  else if (query.state !== 'all') filter.state = 'open'
  const milestone = pathNumber(query.milestone ?? '')
  if (milestone !== undefined) filter.milestoneId = milestone
  const labels = present([query.labels ?? []].flat().map(pathNumber))
  if (labels.length > 0) filter.labelIds = { $all: labels.slice(0, MAX_LABELS) }
  return filter
}

const MAX_LABELS = 50

/** How many there are: counters where there are some, since counting many rows takes its time. */
async function totalOf(
  services: Services,
  { openPulls, closedPulls }: RepositoryDocument,
  filter: Filter<PullDocument>,
): Promise<number> {
  if (filter.milestoneId !== undefined || filter.labelIds !== undefined) {
    return services.views.pulls.count(filter)
  }
  if (filter.state === undefined) return openPulls + closedPulls
  return filter.state === 'open' ? openPulls : closedPulls
}

export function pullQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          querystring: ListQuery,
          response: { 200: Type.Array(PullRequestWire) },
        },
      },
      async (request, reply) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const page = pageOf(request.query, services.config)
        const filter = selectionOf(repository.id, request.query)
        const sort = SORTS.get(request.query.sort ?? '') ?? NEWEST
        const [found, total] = await Promise.all([
          services.views.pulls.find(filter, { sort, skip: page.skip, limit: page.limit }),
          totalOf(services, repository, filter),
        ])
        const around = await surroundings(services, repository, access, found, request.requester)
        sendPaging(request, reply, around.publicUrl, page, total)
        return found.map((pull) => pullWire(pull, around))
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index',
      { schema: { tags: ['repository'], params: PullParams, response: { 200: PullRequestWire } } },
      async (request) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const pull = await pullFor(services, repository.id, request.params.index)
        return pullWire(pull, await surroundings(services, repository, access, [pull], request.requester))
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/merge',
      { schema: { tags: ['repository'], params: PullParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        const pull = await pullFor(services, repository.id, request.params.index)
        if (pull.merged === null) throw new Refused(refuse.notFound('the pull request is not merged'))
        return reply.code(204).send(null)
      },
    )
  }
}
