/** Pull requests on the wire: one, and lists of them. A list is one indexed read; no git process is started. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { isWorkInProgress } from '../commands/pull-requests/pull-request.ts'
import { Refused, refuse } from '../commands/refusal.ts'
import type { BranchPoint } from '../events/domain-events.ts'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { repositoryFor } from '../http/requests.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type PullDocument, pullId } from '../projections/pulls.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'
import type { Access } from './access.ts'
import { ownerOf, RepositoryParams, RepositoryWire, repositoryWire } from './repositories.ts'
import { UserWire, userWire } from './users.ts'

export const PullParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

const BranchPointWire = Type.Object({
  label: Type.String(),
  ref: Type.String(),
  sha: Type.String(),
  repo_id: Type.Integer(),
  repo: RepositoryWire,
})

const Nullable = <T extends Parameters<typeof Type.Union>[0][number]>(type: T) =>
  Type.Union([type, Type.Null()])

export const PullRequestWire = Type.Object({
  id: Type.Integer(),
  url: Type.String(),
  number: Type.Integer(),
  user: UserWire,
  title: Type.String(),
  body: Type.String(),
  labels: Type.Array(Type.Object({})),
  milestone: Type.Null(),
  assignee: Type.Null(),
  assignees: Type.Null(),
  requested_reviewers: Type.Array(UserWire),
  state: Type.String(),
  draft: Type.Boolean(),
  is_locked: Type.Boolean(),
  comments: Type.Integer(),
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
  due_date: Type.Null(),
  created_at: Type.String(),
  updated_at: Type.String(),
  closed_at: Nullable(Type.String()),
  pin_order: Type.Integer(),
})

/** What all rows of one list share. */
export interface PullSurroundings {
  repository: Static<typeof RepositoryWire>
  /** Posters and mergers by id. */
  people: ReadonlyMap<number, Static<typeof UserWire>>
  publicUrl: string
}

/** The document as Gitea's `PullRequest`. */
export function pullWire(pull: PullDocument, around: PullSurroundings): Static<typeof PullRequestWire> {
  const { repository, people, publicUrl } = around
  const page = `${publicUrl}/${repository.full_name}/pulls/${pull.index}`
  const poster = people.get(pull.poster.id)
  if (poster === undefined) throw new Error(`pull request ${pull.repoId}.${pull.index} has no poster`)
  const branchPoint = ({ branch, sha, repoId }: BranchPoint) => ({
    label: branch,
    ref: branch,
    sha,
    repo_id: repoId,
    repo: repository,
  })
  return {
    id: pull.id,
    url: page,
    number: pull.index,
    user: poster,
    title: pull.title,
    body: pull.body,
    labels: [],
    milestone: null,
    assignee: null,
    assignees: null,
    requested_reviewers: [],
    state: pull.state,
    draft: isWorkInProgress(pull.title),
    is_locked: false,
    comments: pull.comments,
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
    allow_maintainer_edit: false,
    base: branchPoint(pull.base),
    head: branchPoint(pull.head),
    merge_base: pull.mergeBase,
    due_date: null,
    created_at: pull.createdAt,
    updated_at: pull.updatedAt,
    closed_at: pull.closedAt,
    pin_order: 0,
  }
}

/** Reads at once what the rows need beside themselves: the owner, posters and mergers. */
export async function surroundings(
  services: Services,
  repository: RepositoryDocument,
  access: Access,
  pulls: readonly PullDocument[],
): Promise<PullSurroundings> {
  const publicUrl = services.publicUrl()
  const ids = new Set(
    pulls.flatMap(({ poster, merged }) => (merged === null ? [poster.id] : [poster.id, merged.by.id])),
  )
  const [owner, accounts] = await Promise.all([
    ownerOf(services, repository),
    services.views.accounts.getMany([...ids].map(String)),
  ])
  return {
    repository: repositoryWire(repository, owner, access, publicUrl),
    people: new Map(accounts.map((account: AccountDocument) => [account.id, userWire(account, publicUrl)])),
    publicUrl,
  }
}

/** The number in a path, or undefined when it is no positive int64 that can exist. */
export function indexOf(text: string): number | undefined {
  if (!/^[1-9]\d{0,15}$/.test(text)) return undefined
  const index = Number(text)
  return Number.isSafeInteger(index) ? index : undefined
}

/** The pull request in the path as its document, or 404. */
export async function pullFor(services: Services, repoId: number, index: string): Promise<PullDocument> {
  const number = indexOf(index)
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

/** Unknown states select the open ones, unknown sorts the newest first, as in Gitea. */
function selection(
  repository: RepositoryDocument,
  state: string | undefined,
): { filter: Filter<PullDocument>; total: number } {
  const { id: repoId, openPulls, closedPulls } = repository
  switch (state) {
    case 'all':
      return { filter: { repoId }, total: openPulls + closedPulls }
    case 'closed':
      return { filter: { repoId, state: 'closed' }, total: closedPulls }
    default:
      return { filter: { repoId, state: 'open' }, total: openPulls }
  }
}

export function pullQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          querystring: Type.Object({
            state: Type.Optional(Type.String({ description: 'open (default), closed or all' })),
            sort: Type.Optional(Type.String({ description: [...SORTS.keys()].join(', ') })),
            ...PageQuery,
          }),
          response: { 200: Type.Array(PullRequestWire) },
        },
      },
      async (request, reply) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const page = pageOf(request.query, services.config)
        const { filter, total } = selection(repository, request.query.state)
        const sort = SORTS.get(request.query.sort ?? '') ?? NEWEST
        const found = await services.views.pulls.find(filter, { sort, skip: page.skip, limit: page.limit })
        const around = await surroundings(services, repository, access, found)
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
        return pullWire(pull, await surroundings(services, repository, access, [pull]))
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
