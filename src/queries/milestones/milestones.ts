/** Reading the milestones of a repository. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { onRepository } from '../../access/repository-access.ts'
import {
  MilestoneParams,
  MilestoneWire,
  milestoneFor,
  milestoneWire,
} from '../../api/milestones/milestones.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import type { MilestoneDocument } from '../../projections/models/milestones/milestones.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { filteredListSchema, sendPage } from '../paged-list.ts'

/** As in Gitea: an unknown state means open; `name` is a part of the title, ignoring case. */
export function milestoneFilterOf(repoId: number, { state, name = '' }: { state?: string; name?: string }) {
  const filter: Filter<MilestoneDocument> = { repoId }
  if (state !== 'all') filter.state = state === 'closed' ? 'closed' : 'open'
  if (name !== '') filter.titleTails = { $words: [name.toLowerCase()] }
  return filter
}

/** The order of a list. */
export const MILESTONES_BY_DUE_DATE: Sort<MilestoneDocument> = [
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
          ...filteredListSchema(MilestoneWire, {
            state: OptionalText('State: open (default), closed or all'),
            name: OptionalText('Part of the title'),
          }),
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const filter = milestoneFilterOf(repository.id, request.query)
        const page = { view: services.views.milestones, filter, sort: MILESTONES_BY_DUE_DATE }
        return sendPage(services, request, reply, page, async (found) => found.map(milestoneWire))
      },
    )

    app.get(
      '/repos/:owner/:repo/milestones/:id',
      { config, schema: { tags, params: MilestoneParams, response: { 200: MilestoneWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        return milestoneWire(await milestoneFor(services, repository.id, request.params.id))
      },
    )
  }
}
