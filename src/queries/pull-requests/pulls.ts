/** Reads one pull request, or lists them with one indexed read, without git. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { onPull, PullParams, PullRequestWire, pullWire, pullWires } from '../../api/pull-requests/pulls.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { accountIdNamed } from '../../api/users/users.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { PageQuery } from '../../http/requests/paging.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { branchKey, type PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { filteredListSchema, sendPage } from '../paged-list.ts'

const NEWEST: Sort<PullDocument> = [['index', -1]]
const by = (field: 'updatedAt' | 'closedAt' | 'comments', direction: 1 | -1): Sort<PullDocument> => [
  [field, direction],
  ['index', direction],
]
const SORTS: ReadonlyMap<string, Sort<PullDocument>> = new Map([
  ['oldest', [['index', 1]]],
  ['recentupdate', by('updatedAt', -1)],
  ['recentclose', by('closedAt', -1)],
  ['leastupdate', by('updatedAt', 1)],
  ['mostcomment', by('comments', -1)],
  ['leastcomment', by('comments', 1)],
  ['priority', NEWEST],
])

const FILTERS = {
  state: OptionalText('State: open (default), closed or all'),
  sort: OptionalText('Order of the list; default: newest first'),
  milestone: OptionalText('Id of the milestone'),
  poster: OptionalText('Login of the author'),
  base_branch: OptionalText('Name of the base branch'),
  labels: Type.Optional(
    Type.Union([Type.String(), Type.Array(Type.String())], {
      description: 'Ids of labels, repeatable; the pull request has at least one of them',
    }),
  ),
}

/** The query of a list of pull requests. */
export const PullListQuery = Type.Object({ ...FILTERS, ...PageQuery })

/** The orders of a list by their names. The default is the newest first. */
export const PULL_SORTS: readonly string[] = [...SORTS.keys()]

/** Returns the label ids in a query. @throws Refused (unprocessable) for other values, such as names */
function labelIdsIn(given: string | readonly string[] = []): number[] {
  const texts = [given].flat().filter((text) => text !== '')
  const ids = texts.flatMap((text) => pathNumber(text) ?? [])
  if (ids.length === texts.length) return ids
  const message = 'labels: must be ids of labels'
  throw new Refused(refuse.unprocessable(message, [message]))
}

/**
 * `pulls.list.1`, `pulls.list.2`.
 * As in Gitea: an unknown state means open; a milestone that is not a positive whole number is ignored.
 * @throws Refused (unprocessable) for labels that are not ids
 */
async function filterOf(
  services: Services,
  repoId: number,
  query: Static<typeof PullListQuery>,
): Promise<Filter<PullDocument>> {
  const filter: Filter<PullDocument> = { repoId }
  if (query.state === 'closed') filter.state = 'closed'
  else if (query.state !== 'all') filter.state = 'open'
  const milestone = pathNumber(query.milestone ?? '')
  if (milestone !== undefined) filter.milestoneId = milestone
  const labelIds = labelIdsIn(query.labels)
  if (labelIds.length > 0) filter.labelIds = { $in: labelIds }
  if (query.poster) filter.posterId = await accountIdNamed(services, query.poster)
  if (query.base_branch) filter.baseKey = branchKey(repoId, query.base_branch)
  return filter
}

/** Returns a list's total by the repository's counters; undefined when the rows must be counted, which is slow. */
function totalOf({ openPulls, closedPulls }: RepositoryDocument, filter: Filter<PullDocument>) {
  const { milestoneId, labelIds, posterId, baseKey } = filter
  if ([milestoneId, labelIds, posterId, baseKey].some((one) => one !== undefined)) return undefined
  if (filter.state === undefined) return openPulls + closedPulls
  return filter.state === 'open' ? openPulls : closedPulls
}

/** The view, the filter and the order that a query selects. @throws Refused (unprocessable) */
export async function pullListOf(
  services: Services,
  repository: RepositoryDocument,
  query: Static<typeof PullListQuery>,
) {
  const filter = await filterOf(services, repository.id, query)
  const sort = SORTS.get(query.sort ?? '') ?? NEWEST
  return { view: services.views.pulls, filter, sort, total: totalOf(repository, filter) }
}

export function pullQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          ...filteredListSchema(PullRequestWire, FILTERS),
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const list = await pullListOf(services, repository, request.query)
        return sendPage(services, request, reply, list, (found) =>
          pullWires(services, repository, found, request.requester),
        )
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index',
      { schema: { tags: ['repository'], params: PullParams, response: { 200: PullRequestWire } } },
      async (request) => {
        const { repository, pull } = await onPull(services, request, 'read')
        return pullWire(services, repository, pull, request.requester)
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/merge',
      { schema: { tags: ['repository'], params: PullParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { pull } = await onPull(services, request, 'read')
        if (pull.merged === null) throw new Refused(refuse.notFound('the pull request is not merged'))
        return reply.code(204).send(null)
      },
    )
  }
}
