/** Sets and removes collaborators of a repository: `/repos/{owner}/{repo}/collaborators`. */
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { Nullable } from '../../api/nullable.ts'
import { CollaboratorParams, collaboratorNamed } from '../../api/repositories/collaborators.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Permission } from '../../events/catalog/organizations.ts'
import { repositories } from '../execution/aggregates.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { ifStillOwnedBy } from './ownership/same-owner.ts'
import { decideRemoveCollaborator, decideSetCollaborator } from './repository.decider.ts'

const PERMISSIONS: readonly Permission[] = ['read', 'write', 'admin']

/** Returns the permission, `write` by default, as in Gitea. @throws Refused (unprocessable) for an unknown one */
function permissionOf(text: string | undefined): Permission {
  if (text === undefined || text === '') return 'write'
  const permission = PERMISSIONS.find((known) => known === text)
  if (permission !== undefined) return permission
  throw new Refused(refuse.unprocessable(`permission: must be one of ${PERMISSIONS.join(', ')}`))
}

export const collaboratorRoutes: Routes = (services) => async (app) => {
  app.put(
    '/repos/:owner/:repo/collaborators/:collaborator',
    route('repository', {
      params: CollaboratorParams,
      body: Nullable(
        Type.Object({ permission: Type.Optional(Type.String()) }, { title: 'AddCollaboratorOption' }),
      ),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const permission = permissionOf(request.body?.permission)
      const { id, login } = await collaboratorNamed(services, request.params.collaborator)
      const context = commandContext(request)
      const decide = ifStillOwnedBy(repository, (state) =>
        decideSetCollaborator(state, { id, login }, permission),
      )
      await repositories.change(services, context, repository.id, 'set collaborator', decide)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )

  app.delete(
    '/repos/:owner/:repo/collaborators/:collaborator',
    route('repository', { params: CollaboratorParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const { id, login } = await collaboratorNamed(services, request.params.collaborator)
      const context = commandContext(request)
      const decide = ifStillOwnedBy(repository, (state) => decideRemoveCollaborator(state, { id, login }))
      await repositories.change(services, context, repository.id, 'remove collaborator', decide)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
