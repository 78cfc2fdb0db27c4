/** Deletes a repository: `DELETE /repos/{owner}/{repo}`. */
import { claimKeys, repositoryStream } from '../../events/streams.ts'
import { deleteRepository } from '../../git/repository.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { repositories } from '../aggregates.ts'
import { releaseClaim } from '../claims.ts'
import type { CommandContext } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { decideDelete } from './repository.ts'

/** Deletes a repository, and frees what it held. */
export async function deleteWithClaims(
  services: Services,
  context: CommandContext,
  { id, ownerId, name, parentId }: Pick<RepositoryDocument, 'id' | 'ownerId' | 'name' | 'parentId'>,
): Promise<void> {
  const { events } = services
  const stream = repositoryStream(id)
  await repositories.change(services, context, id, 'delete', decideDelete)
  // The event decides. A crash after it leaves claims, which the next repository of that name takes over,
  // and objects, which the next start removes.
  await releaseClaim(events, context, claimKeys.repository(ownerId, name), stream)
  if (parentId !== null) await releaseClaim(events, context, claimKeys.fork(parentId, ownerId), stream)
  await deleteRepository(gitDirOf(services, id))
}

export const deleteRepositoryRoutes: Routes = (services) => async (app) => {
  app.delete(
    '/repos/:owner/:repo',
    route('repository', { params: RepositoryParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const context = commandContext(request)
      await deleteWithClaims(services, context, repository)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
