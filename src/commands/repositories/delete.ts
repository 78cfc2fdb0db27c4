/** Deletes a repository: `DELETE /repos/{owner}/{repo}`. */
import { claimKeys, repositoryStream } from '../../events/streams.ts'
import { deleteRepository } from '../../git/repository.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { gitDirOf } from '../../services.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { repositories } from '../aggregates.ts'
import { releaseClaim } from '../claims.ts'
import { commandContext, settled } from '../request-context.ts'
import { decideDelete } from './repository.ts'

export const deleteRepositoryRoutes: Routes = (services) => async (app) => {
  const { events } = services
  app.delete(
    '/repos/:owner/:repo',
    route('repository', { params: RepositoryParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const stream = repositoryStream(repository.id)
      const context = commandContext(request)
      await repositories.change(services, context, repository.id, 'delete', decideDelete)
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
