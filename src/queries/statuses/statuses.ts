/** Reads the statuses of a commit: all, or the combined state of the latest one of each context. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { onRepository, type RepositoryAccess } from '../../access/repository-access.ts'
import { measuredOf, ownerOf, repositoryWire } from '../../api/repositories/repositories.ts'
import {
  CommitStatusWire,
  combinedState,
  commitOf,
  repositoryUrl,
  StatusParams,
  statusWires,
} from '../../api/statuses/statuses.ts'
import { COMMIT_STATES, type CommitState } from '../../events/catalog/statuses.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { pageOf, sendPaging } from '../../http/requests/paging.ts'
import {
  type CommitChecksDocument,
  type CommitStatusDocument,
  commitChecksId,
} from '../../projections/models/statuses/commit-statuses.fold.ts'
import type { Sort } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { filteredListSchema, pagedRows } from '../paged-list.ts'

const OLDEST: Sort<CommitStatusDocument> = [['id', 1]]
const NEWEST: Sort<CommitStatusDocument> = [['id', -1]]
/** A status never changes, so the order of ids is that of creation and update. */
const SORTS: ReadonlyMap<string, Sort<CommitStatusDocument>> = new Map([
  ['oldest', OLDEST],
  ['recentupdate', NEWEST],
  ['leastupdate', OLDEST],
  ['leastindex', OLDEST],
  ['highestindex', NEWEST],
])

export const STATUS_LIST = filteredListSchema(CommitStatusWire, {
  sort: OptionalText('Order of the list; default: newest first'),
  state: OptionalText('Only statuses with this state'),
})
export type StatusRequest = FastifyRequest & { query: Static<typeof STATUS_LIST.querystring> }

/** The commit of the statuses. */
type CommitInRepository = RepositoryAccess & { sha: string }

/** The answers about the statuses of a commit. */
export function statusAnswers(services: Services) {
  const { views } = services

  async function list(request: StatusRequest, reply: FastifyReply, { repository, sha }: CommitInRepository) {
    const page = pageOf(request.query, services.config)
    const state = COMMIT_STATES.find((known) => known === request.query.state)
    const filter = { repoId: repository.id, sha, ...(state && { state }) }
    const sort = SORTS.get(request.query.sort ?? '') ?? NEWEST
    const [found, checks] = await Promise.all([
      views.commitStatuses.find(filter, { sort, skip: page.skip, limit: page.limit }),
      views.commitChecks.get(commitChecksId(repository.id, sha)),
    ])
    sendPaging(request, reply, services.publicUrl(), page, totalOf(checks, state))
    return await statusWires(services, repository, found)
  }

  async function combined(
    request: StatusRequest,
    reply: FastifyReply,
    { repository, access, sha }: CommitInRepository,
  ) {
    const [checks, owner, usages] = await Promise.all([
      views.commitChecks.get(commitChecksId(repository.id, sha)),
      ownerOf(services, repository),
      services.diskUsage.getMany([repository.id]),
    ])
    const measured = measuredOf(usages.get(repository.id))
    const latest = checks?.latest ?? []
    const ids = pagedRows(services, request, reply, latest).map(({ id }) => `${id}`)
    const publicUrl = services.publicUrl()
    const commitUrl = `${repositoryUrl(repository, publicUrl)}/commits/${sha}`
    return {
      state: combinedState(latest.map(({ state }) => state)),
      sha,
      total_count: latest.length,
      statuses: await statusWires(services, repository, await views.commitStatuses.getMany(ids)),
      repository: repositoryWire(repository, owner, access, publicUrl, measured),
      commit_url: commitUrl,
      url: `${commitUrl}/status`,
    }
  }

  return { list, combined }
}

export function statusQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { list } = statusAnswers(services)
  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/statuses/:sha',
      { schema: { tags, params: StatusParams, ...STATUS_LIST } },
      async (request, reply) => {
        const found = await onRepository(services, request, 'read')
        const sha = await commitOf(services, found.repository, request.params.sha)
        return await list(request, reply, { ...found, sha })
      },
    )
  }
}

/** The number of statuses on all pages of a list. */
function totalOf(checks: CommitChecksDocument | undefined, state: CommitState | undefined): number {
  if (checks === undefined) return 0
  if (state !== undefined) return checks.posted[state]
  return COMMIT_STATES.reduce((sum, each) => sum + checks.posted[each], 0)
}
