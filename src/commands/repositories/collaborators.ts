/** Sets and removes collaborators of a repository: `/repos/{owner}/{repo}/collaborators`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { Permission } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import { onRepository } from '../../rights/repository-access.ts'
import type { Services } from '../../services.ts'
import { CollaboratorParams, collaboratorNamed } from '../../wire/collaborators.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { executeRequest } from '../request-context.ts'
import { decideRemoveCollaborator, decideSetCollaborator, repositoryDecider } from './repository.ts'

const PERMISSIONS: readonly Permission[] = ['read', 'write', 'admin']

/** Without a permission it is `write`, as in Gitea. @throws Refused (unprocessable) for an unknown permission */
function permissionOf(text: string | undefined): Permission {
  if (text === undefined || text === '') return 'write'
  const permission = PERMISSIONS.find((known) => known === text)
  if (permission !== undefined) return permission
  throw new Refused(refuse.unprocessable(`permission: must be one of ${PERMISSIONS.join(', ')}`))
}

export function collaboratorRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['repository']

    app.put(
      '/repos/:owner/:repo/collaborators/:collaborator',
      {
        schema: {
          tags,
          params: CollaboratorParams,
          body: GivenOrNull(Type.Object({ permission: Type.Optional(Type.String()) })),
          response: { 204: Type.Null() },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const permission = permissionOf(request.body?.permission)
        const user = await collaboratorNamed(services, request.params.collaborator)
        await executeRequest(services, request, reply, {
          stream: repositoryStream(repository.id),
          step: 'set collaborator',
          decider: repositoryDecider,
          decide: (state) => decideSetCollaborator(state, { id: user.id, login: user.login }, permission),
        })
        return reply.code(204).send(null)
      },
    )

    app.delete(
      '/repos/:owner/:repo/collaborators/:collaborator',
      { schema: { tags, params: CollaboratorParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const user = await collaboratorNamed(services, request.params.collaborator)
        await executeRequest(services, request, reply, {
          stream: repositoryStream(repository.id),
          step: 'remove collaborator',
          decider: repositoryDecider,
          decide: (state) => decideRemoveCollaborator(state, { id: user.id, login: user.login }),
        })
        return reply.code(204).send(null)
      },
    )
  }
}
