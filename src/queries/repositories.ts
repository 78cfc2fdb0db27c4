/** Reading one repository: `GET /repos/{owner}/{repo}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { RepositoryParams, RepositoryWire, repositoryPage } from '../wire/repositories.ts'

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
  }
}
