/** Deletes a repository: `DELETE /repos/{owner}/{repo}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { claimKeys, repositoryStream } from '../../events/streams.ts'
import { deleteRepository } from '../../git/repository.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { releaseClaim } from '../claims.ts'
import { execute } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { decideDelete, repositoryDecider } from './repository.ts'

export function deleteRepositoryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events } = services
  return async (app) => {
    app.delete(
      '/repos/:owner/:repo',
      { schema: { tags: ['repository'], params: RepositoryParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const stream = repositoryStream(repository.id)
        const context = commandContext(request)
        await execute(events, context, {
          stream,
          step: 'delete',
          decider: repositoryDecider,
          decide: decideDelete,
        })
        // The event decides. A crash after it leaves claims, which the next repository of that name takes over,
        // and objects, which the next start removes.
        const { ownerId, name, parentId } = repository
        await releaseClaim(events, context, claimKeys.repository(ownerId, name), stream)
        if (parentId !== null) await releaseClaim(events, context, claimKeys.fork(parentId, ownerId), stream)
        await deleteRepository(gitDirOf(services, repository.id))
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
