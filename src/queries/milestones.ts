/** Milestones on the wire, and reading those of a repository. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../commands/refusal.ts'
import { pagedList } from '../http/paged-list.ts'
import { PageQuery } from '../http/paging.ts'
import { pathNumber } from '../http/path-number.ts'
import { repositoryFor } from '../http/requests.ts'
import type { MilestoneDocument } from '../projections/milestones.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { Services } from '../services.ts'
import { Nullable } from '../wire/nullable.ts'
import { RepositoryParams } from './repositories.ts'

/** `id`: an id or a title. */
export const MilestoneParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const MilestoneWire = Type.Object({
  id: Type.Integer(),
  title: Type.String(),
  description: Type.String(),
  state: Type.String(),
  open_issues: Type.Integer(),
  closed_issues: Type.Integer(),
  created_at: Type.String(),
  updated_at: Type.String(),
  closed_at: Nullable(Type.String()),
  due_on: Nullable(Type.String()),
})

/** The document as Gitea's `Milestone`. */
export function milestoneWire(milestone: MilestoneDocument): Static<typeof MilestoneWire> {
  return {
    id: milestone.id,
    title: milestone.title,
    description: milestone.description,
    state: milestone.state,
    open_issues: milestone.openIssues,
    closed_issues: milestone.closedIssues,
    created_at: milestone.createdAt,
    updated_at: milestone.updatedAt,
    closed_at: milestone.closedAt,
    due_on: milestone.dueOn,
  }
}

/** The milestone with that id, if it is one of the repository. */
export async function milestoneOf(
  services: Services,
  repoId: number,
  id: number,
): Promise<MilestoneDocument | undefined> {
  const milestone = await services.views.milestones.get(`${id}`)
  return milestone?.repoId === repoId ? milestone : undefined
}

/** The repository's milestone in a path: by its id or, when none has it, by its title. 404 when there is none. */
export async function milestoneFor(
  services: Services,
  repoId: number,
  idOrTitle: string,
): Promise<MilestoneDocument> {
  const id = pathNumber(idOrTitle)
  const milestone =
    (id === undefined ? undefined : await milestoneOf(services, repoId, id)) ??
    (await services.views.milestones.findOne({ repoId, title: idOrTitle }))
  if (milestone === undefined) throw new Refused(refuse.notFound('milestone not found'))
  return milestone
}

/** Unknown states are `open`; `name` is a part of the title, whatever its case, as in Gitea. */
function selection(
  repoId: number,
  { state, name = '' }: { state?: string; name?: string },
): Filter<MilestoneDocument> {
  const filter: Filter<MilestoneDocument> = { repoId }
  if (state !== 'all') filter.state = state === 'closed' ? 'closed' : 'open'
  if (name !== '') filter.titleTails = { $words: [name.toLowerCase()] }
  return filter
}

const BY_DUE_DATE: Sort<MilestoneDocument> = [
  ['dueAt', 1],
  ['id', 1],
]

export function milestoneQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.get(
      '/repos/:owner/:repo/milestones',
      {
        config,
        schema: {
          tags,
          params: RepositoryParams,
          querystring: Type.Object({
            state: Type.Optional(Type.String({ description: 'open (default), closed or all' })),
            name: Type.Optional(Type.String({ description: 'a part of the title' })),
            ...PageQuery,
          }),
          response: { 200: Type.Array(MilestoneWire) },
        },
      },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        const { query } = request
        const filter = selection(repository.id, query)
        const page = { view: services.views.milestones, filter, sort: BY_DUE_DATE, query }
        const found = await pagedList(services, request, reply, page)
        return found.map(milestoneWire)
      },
    )

    app.get(
      '/repos/:owner/:repo/milestones/:id',
      { config, schema: { tags, params: MilestoneParams, response: { 200: MilestoneWire } } },
      async (request) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        return milestoneWire(await milestoneFor(services, repository.id, request.params.id))
      },
    )
  }
}
