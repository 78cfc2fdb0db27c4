/** Reading tags: the read model finds them, and the repository's reader has their objects. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { tagId } from '../projections/tags.ts'
import { notFoundIn } from '../projections/view.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { RepositoryParams } from '../wire/repositories.ts'
import { TagParams, TagWire, tagWires } from '../wire/tags.ts'
import { listSchema, pagedList } from './paged-list.ts'

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
          sort: [
            ['date', -1],
            ['name', -1],
          ],
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
        const [wire] = tag === undefined ? [] : await tagWires(services, repository, [tag])
        if (wire === undefined) throw notFoundIn(tags, 'tag not found')
        return wire
      },
    )
  }
}
