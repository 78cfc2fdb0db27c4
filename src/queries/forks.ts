/** Forks of a repository: an owner's, and `GET /repos/{owner}/{repo}/forks`. */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { PageQuery } from '../http/paging.ts'
import { accessTo } from '../rights/access.ts'
import { readableBy } from '../rights/readable.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { RepositoryParams, RepositoryWire, repositoryWire } from '../wire/repositories.ts'
import { pagedList } from './paged-list.ts'

export function forkQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { repositories, accounts } = services.views
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/forks',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          querystring: Type.Object(PageQuery),
          response: { 200: Type.Array(RepositoryWire) },
        },
      },
      async (request, reply) => {
        const { requester } = request
        const { repository } = await onRepository(services, request, 'read')
        const forks = await pagedList(services, request, reply, {
          view: repositories,
          filter: { parentId: repository.id, ...readableBy(requester) },
          sort: [['id', 1]],
          query: request.query,
        })
        const owners = await accounts.getMany([...new Set(forks.map(({ ownerId }) => `${ownerId}`))])
        const ownerById = new Map(owners.map((owner) => [owner.id, owner]))
        const publicUrl = services.publicUrl()
        return forks.flatMap((fork) => {
          const owner = ownerById.get(fork.ownerId)
          return owner === undefined
            ? []
            : [repositoryWire(fork, owner, accessTo(fork, requester), publicUrl)]
        })
      },
    )
  }
}
