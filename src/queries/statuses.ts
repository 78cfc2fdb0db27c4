/** Statuses of commits on the wire: each one posted, and what the latest of each context say together. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../commands/refusal.ts'
import { COMMIT_STATES } from '../commands/statuses/checks.ts'
import type { CommitState } from '../events/domain-events.ts'
import { commitFacts } from '../git/commits.ts'
import { isObjectId } from '../git/names.ts'
import { commitOfTagOrId } from '../git/revision.ts'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { repositoryFor } from '../http/requests.ts'
import { branchId } from '../projections/branches.ts'
import {
  type CommitChecksDocument,
  type CommitStatusDocument,
  commitChecksId,
} from '../projections/commit-statuses.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { gitDirOf, type Services } from '../services.ts'
import { Nullable } from '../wire/nullable.ts'
import type { Access } from './access.ts'
import { ownerOf, RepositoryWire, repositoryWire } from './repositories.ts'
import { UserWire, userWire } from './users.ts'

export const StatusParams = Type.Object({ owner: Type.String(), repo: Type.String(), sha: Type.String() })

export const CommitStatusWire = Type.Object({
  id: Type.Integer(),
  status: Type.String(),
  target_url: Type.String(),
  description: Type.String(),
  url: Type.String(),
  context: Type.String(),
  creator: Nullable(UserWire),
  created_at: Type.String(),
  updated_at: Type.String(),
})

export const CombinedStatusWire = Type.Object({
  state: Type.String(),
  sha: Type.String(),
  total_count: Type.Integer(),
  statuses: Type.Array(CommitStatusWire),
  repository: RepositoryWire,
  commit_url: Type.String(),
  url: Type.String(),
})

/** The document as Gitea's `CommitStatus`. */
export function statusWire(
  status: CommitStatusDocument,
  repository: RepositoryDocument,
  creator: Static<typeof UserWire> | null,
  publicUrl: string,
): Static<typeof CommitStatusWire> {
  return {
    id: status.id,
    status: status.state,
    target_url: status.targetUrl,
    description: status.description,
    url: `${repositoryUrl(repository, publicUrl)}/statuses/${status.sha}`,
    context: status.context,
    creator,
    created_at: status.createdAt,
    updated_at: status.createdAt,
  }
}

/** The same for several; who posted them is read at once. */
async function statusWires(
  services: Services,
  repository: RepositoryDocument,
  statuses: readonly CommitStatusDocument[],
): Promise<Static<typeof CommitStatusWire>[]> {
  const publicUrl = services.publicUrl()
  const ids = new Set(statuses.map(({ creator }) => `${creator.id}`))
  const accounts = await services.views.accounts.getMany([...ids])
  const people = new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
  return statuses.map((status) =>
    statusWire(status, repository, people.get(status.creator.id) ?? null, publicUrl),
  )
}

function repositoryUrl({ ownerLogin, name }: RepositoryDocument, publicUrl: string): string {
  return `${publicUrl}/api/v1/repos/${ownerLogin}/${name}`
}

/**
 * The commit that `ref` means: a whole commit id, a branch, a tag, or a commit id abbreviated to 7 digits and
 * more, in this order, so that no branch can take the place of a commit. For branches, and for whole ids of
 * commits that have statuses, git is not asked.
 * @throws Refused (not found)
 */
export async function commitOf(
  services: Services,
  repository: RepositoryDocument,
  ref: string,
): Promise<string> {
  const { views } = services
  const dir = gitDirOf(services, repository.id)
  const id = ref.toLowerCase()
  if (isObjectId(id)) {
    if ((await views.commitChecks.get(commitChecksId(repository.id, id))) !== undefined) return id
    if ((await commitFacts(dir, [id])).has(id)) return id
  }
  const tag = /^refs\/tags\/(.*)$/s.exec(ref)?.[1]
  if (tag === undefined) {
    const branch = await views.branches.get(branchId(repository.id, ref.replace(/^refs\/heads\//, '')))
    if (branch !== undefined) return branch.commit.sha
  }
  const sha = await commitOfTagOrId(dir, tag ?? ref)
  if (sha === undefined) throw new Refused(refuse.notFound('no branch, tag or commit of that name'))
  return sha
}

/**
 * What the states say together, by Gitea's rule: failure if there is a failure or an error; pending if nothing
 * was posted or something is pending; or else success, for `warning` too. Merging asks for more: see
 * `checksOutcome`.
 */
export function combinedState(states: readonly CommitState[]): CommitState {
  if (states.includes('failure') || states.includes('error')) return 'failure'
  return states.length === 0 || states.includes('pending') ? 'pending' : 'success'
}

const OLDEST: Sort<CommitStatusDocument> = [['id', 1]]
const NEWEST: Sort<CommitStatusDocument> = [['id', -1]]
/** A status never changes, so its id tells all of its times. */
const SORTS: ReadonlyMap<string, Sort<CommitStatusDocument>> = new Map([
  ['oldest', OLDEST],
  ['recentupdate', NEWEST],
  ['leastupdate', OLDEST],
  ['leastindex', OLDEST],
  ['highestindex', NEWEST],
])

const ListQuery = {
  sort: Type.Optional(Type.String({ description: [...SORTS.keys()].join(', ') })),
  state: Type.Optional(Type.String({ description: COMMIT_STATES.join(', ') })),
  ...PageQuery,
}
type ListQuery = Static<ReturnType<typeof Type.Object<typeof ListQuery>>>

/** One commit's statuses for a request. */
interface Asked {
  repository: RepositoryDocument
  access: Access
  sha: string
}

export function statusQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services

  async function list(
    request: FastifyRequest<{ Querystring: ListQuery }>,
    reply: FastifyReply,
    { repository, sha }: Asked,
  ): Promise<Static<typeof CommitStatusWire>[]> {
    const page = pageOf(request.query, services.config)
    const state = COMMIT_STATES.find((known) => known === request.query.state)
    const filter: Filter<CommitStatusDocument> = { repoId: repository.id, sha, ...(state && { state }) }
    const sort = SORTS.get(request.query.sort ?? '') ?? NEWEST
    const [found, checks] = await Promise.all([
      views.commitStatuses.find(filter, { sort, skip: page.skip, limit: page.limit }),
      views.commitChecks.get(commitChecksId(repository.id, sha)),
    ])
    sendPaging(request, reply, services.publicUrl(), page, totalOf(checks, state))
    return await statusWires(services, repository, found)
  }

  async function combined(
    request: FastifyRequest<{ Querystring: ListQuery }>,
    reply: FastifyReply,
    { repository, access, sha }: Asked,
  ): Promise<Static<typeof CombinedStatusWire>> {
    const page = pageOf(request.query, services.config)
    const [checks, owner] = await Promise.all([
      views.commitChecks.get(commitChecksId(repository.id, sha)),
      ownerOf(services, repository),
    ])
    const latest = checks?.latest ?? []
    const ids = latest.slice(page.skip, page.skip + page.limit).map(({ id }) => `${id}`)
    const publicUrl = services.publicUrl()
    sendPaging(request, reply, publicUrl, page, latest.length)
    const commitUrl = `${repositoryUrl(repository, publicUrl)}/commits/${sha}`
    return {
      state: combinedState(latest.map(({ state }) => state)),
      sha,
      total_count: latest.length,
      statuses: await statusWires(services, repository, await views.commitStatuses.getMany(ids)),
      repository: repositoryWire(repository, owner, access, publicUrl),
      commit_url: commitUrl,
      url: `${commitUrl}/status`,
    }
  }

  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/statuses/:sha',
      {
        schema: {
          tags,
          params: StatusParams,
          querystring: Type.Object(ListQuery),
          response: { 200: Type.Array(CommitStatusWire) },
        },
      },
      async (request, reply) => {
        const found = await repositoryFor(services, request, request.params, 'read')
        const sha = await commitOf(services, found.repository, request.params.sha)
        return await list(request, reply, { ...found, sha })
      },
    )

    app.get(
      '/repos/:owner/:repo/commits/*',
      {
        schema: {
          tags,
          description: '`{ref}/status`: combined, `{ref}/statuses`: all; a ref may have slashes',
          params: Type.Object({ owner: Type.String(), repo: Type.String(), '*': Type.String() }),
          querystring: Type.Object(ListQuery),
          response: { 200: Type.Union([Type.Array(CommitStatusWire), CombinedStatusWire]) },
        },
      },
      async (request, reply) => {
        const [, ref, asked] = /^(.+)\/(status|statuses)$/s.exec(request.params['*']) ?? []
        if (ref === undefined) return reply.callNotFound()
        const found = await repositoryFor(services, request, request.params, 'read')
        const commit = { ...found, sha: await commitOf(services, found.repository, ref) }
        return asked === 'status'
          ? await combined(request, reply, commit)
          : await list(request, reply, commit)
      },
    )
  }
}

/** How many statuses a list has over all of its pages. */
function totalOf(checks: CommitChecksDocument | undefined, state: CommitState | undefined): number {
  if (checks === undefined) return 0
  if (state !== undefined) return checks.posted[state]
  return COMMIT_STATES.reduce((sum, each) => sum + checks.posted[each], 0)
}
