/** The forks of a repository: `GET /repos/{owner}/{repo}/forks`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { readableBy } from '../rights/readable.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { RepositoryParams, RepositoryWire, repositoryWires } from '../wire/repositories.ts'
import { listSchema, pagedList } from './paged-list.ts'

export function forkQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/forks',
      { schema: { tags: ['repository'], params: RepositoryParams, ...listSchema(RepositoryWire) } },
      async (request, reply) => {
        const { requester } = request
        const { repository } = await onRepository(services, request, 'read')
        const forks = await pagedList(services, request, reply, {
          view: services.views.repositories,
          filter: { parentId: repository.id, ...readableBy(requester) },
          sort: [['id', 1]],
        })
        return repositoryWires(services, forks, requester)
      },
    )
  }
}
