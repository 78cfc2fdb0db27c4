/** Deletes a repository: `DELETE /repos/{owner}/{repo}`, for its owner only, as in Gitea. */

import { owns } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { repositoryStream } from '../../events/streams.ts'
import { deleteRepository } from '../../git/repository/repository.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { repositories } from '../execution/aggregates.ts'
import { releaseClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { ifStillOwnedBy } from './ownership/same-owner.ts'
import { decideDelete, type RepositoryState } from './repository.decider.ts'
import { keysOf } from './repository-claims.ts'

/** Deletes a repository of this owner and releases its present claims: it may just have been renamed. */
export async function deleteWithClaims(
  services: Services,
  context: CommandContext,
  { id, ownerId }: Pick<RepositoryDocument, 'id' | 'ownerId'>,
): Promise<void> {
  let held: readonly string[] = []
  const decide = (state: RepositoryState) => {
    held = keysOf(state)
    return decideDelete(state)
  }
  await repositories.change(services, context, id, 'delete', ifStillOwnedBy({ ownerId }, decide))
  // The event decides. A crash after it leaves claims, which the next repository of that name takes over, and objects,
  // which the next start removes.
  for (const key of held) await releaseClaim(services, context, key, repositoryStream(id))
  await deleteRepository(gitDirOf(services, id))
}

export const deleteRepositoryRoutes: Routes = (services) => async (app) => {
  app.delete(
    '/repos/:owner/:repo',
    route('repository', { params: RepositoryParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      if (!owns(repository, signedIn(request))) {
        throw new Refused(refuse.forbidden('only the owner of the repository may delete it'))
      }
      const context = commandContext(request)
      await deleteWithClaims(services, context, repository)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
