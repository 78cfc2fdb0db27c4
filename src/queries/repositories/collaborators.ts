/** Reading the collaborators of a repository: `/repos/{owner}/{repo}/collaborators`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { accessIn, isPublicReaderOnly } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { CollaboratorParams, collaboratorNamed } from '../../api/repositories/collaborators.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { UserWire, userWire } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, pagedRows } from '../paged-list.ts'

export function collaboratorQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  /**
   * Returns the repository in the path, for requesters with their own permission. In Gitea, any reader may see
   * collaborators.
   */
  async function forCollaborator(request: Parameters<typeof onRepository>[1]) {
    const { repository } = await onRepository(services, request, 'read')
    if (isPublicReaderOnly(repository, signedIn(request))) {
      throw new Refused(refuse.forbidden('only collaborators of the repository may see its collaborators'))
    }
    return repository
  }

  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/collaborators',
      { schema: { tags, params: RepositoryParams, ...listSchema(UserWire) } },
      async (request, reply) => {
        const repository = await forCollaborator(request)
        const ids = pagedRows(services, request, reply, Object.keys(repository.collaborators))
        const found = await services.views.accounts.getMany(ids)
        return found.map((account) => userWire(account, services.publicUrl()))
      },
    )

    app.get(
      '/repos/:owner/:repo/collaborators/:collaborator',
      { schema: { tags, params: CollaboratorParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const repository = await forCollaborator(request)
        const user = await collaboratorNamed(services, request.params.collaborator)
        if (repository.collaborators[`${user.id}`] === undefined) {
          throw new Refused(refuse.notFound(`${user.login} is not a collaborator`))
        }
        return reply.code(204).send(null)
      },
    )

    app.get(
      '/repos/:owner/:repo/collaborators/:collaborator/permission',
      {
        schema: {
          tags,
          params: CollaboratorParams,
          response: {
            200: Type.Object({ permission: Type.String(), role_name: Type.String(), user: UserWire }),
          },
        },
      },
      async (request) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const requester = signedIn(request)
        const user = await collaboratorNamed(services, request.params.collaborator)
        if (access !== 'admin' && requester.id !== user.id) {
          throw new Refused(refuse.forbidden('only repository admins may see the permissions of other users'))
        }
        const permission = user.id === repository.ownerId ? 'owner' : accessIn(repository, user)
        return { permission, role_name: permission, user: userWire(user, services.publicUrl()) }
      },
    )
  }
}
