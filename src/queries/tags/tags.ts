/** Reads tags from the read model, and their objects from git. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { onRepository } from '../../access/repository-access.ts'
import { requireCommits } from '../../api/contents/refs-in-time.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { TagParams, TagWire, tagWires } from '../../api/tags/tags.ts'
import { type TagDocument, tagId } from '../../projections/models/tags/tags.fold.ts'
import type { Sort } from '../../projections/store/read-store.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, pagedList } from '../paged-list.ts'

/** The order of a list. */
export const NEWEST_TAGS: Sort<TagDocument> = [
  ['date', -1],
  ['name', -1],
]

export function tagQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { tags } = services.views
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/tags',
      { schema: { tags: ['repository'], params: RepositoryParams, ...listSchema(TagWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const found = await pagedList(services, request, reply, {
          view: tags,
          filter: { repoId: repository.id },
          sort: NEWEST_TAGS,
        })
        return await tagWires(services, repository, found)
      },
    )

    app.get(
      '/repos/:owner/:repo/tags/*',
      { schema: { tags: ['repository'], params: TagParams, response: { 200: TagWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const tag = await tags.get(tagId(repository.id, request.params['*']))
        if (tag !== undefined) await requireCommits(services, repository.id, [tag.sha])
        const [wire] = tag === undefined ? [] : await tagWires(services, repository, [tag])
        if (wire === undefined) throw notFoundIn(tags, 'tag not found')
        return wire
      },
    )
  }
}
