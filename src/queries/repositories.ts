/** Reading one repository, and its forks: `/repos/{owner}/{repo}`, `/repos/{owner}/{repo}/forks`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { readableBy } from '../rights/access.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { RepositoryParams, RepositoryWire, repositoryPage, repositoryWires } from '../wire/repositories.ts'
import { listSchema, pagedList } from './paged-list.ts'

export function repositoryQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo',
      { schema: { tags: ['repository'], params: RepositoryParams, response: { 200: RepositoryWire } } },
      async (request) => {
        const { repository, access } = await onRepository(services, request, 'read')
        return repositoryPage(services, repository, access, request.requester)
      },
    )

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
