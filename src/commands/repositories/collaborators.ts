/** Who else may work with a repository: `/repos/{owner}/{repo}/collaborators`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { Permission } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import { PageQuery, pageOf, sendPaging } from '../../http/paging.ts'
import { commandContext, repositoryFor, settled, signedIn } from '../../http/requests.ts'
import type { AccountDocument } from '../../projections/accounts.ts'
import { accessTo } from '../../queries/access.ts'
import { RepositoryParams } from '../../queries/repositories.ts'
import { UserWire, userWire } from '../../queries/users.ts'
import type { Services } from '../../services.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { execute } from '../execute.ts'
import { Refused, refuse } from '../refusal.ts'
import { decideRemoveCollaborator, decideSetCollaborator, repositoryDecider } from './repository.ts'

const CollaboratorParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  collaborator: Type.String(),
})

const PERMISSIONS: readonly Permission[] = ['read', 'write', 'admin']

/** An unknown permission is an error, no permission is `write`, as in Gitea. */
function permissionOf(text: string | undefined): Permission {
  if (text === undefined || text === '') return 'write'
  const permission = PERMISSIONS.find((known) => known === text)
  if (permission !== undefined) return permission
  throw new Refused(refuse.unprocessable(`permission: must be one of ${PERMISSIONS.join(', ')}`))
}

export function collaboratorRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services

  async function accountOfCollaborator(login: string): Promise<AccountDocument> {
    const account = await views.accounts.findOne({ loginKey: login.toLowerCase() })
    if (account?.kind === 'user') return account
    throw new Refused(refuse.unprocessable(`collaborator: user "${login}" does not exist`))
  }

  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/collaborators',
      {
        schema: {
          tags,
          params: RepositoryParams,
          querystring: Type.Object(PageQuery),
          response: { 200: Type.Array(UserWire) },
        },
      },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        signedIn(request)
        const page = pageOf(request.query, services.config)
        const ids = Object.keys(repository.collaborators)
        const publicUrl = services.publicUrl()
        sendPaging(request, reply, publicUrl, page, ids.length)
        const found = await views.accounts.getMany(ids.slice(page.skip, page.skip + page.limit))
        return found.map((account) => userWire(account, publicUrl))
      },
    )

    app.get(
      '/repos/:owner/:repo/collaborators/:collaborator',
      { schema: { tags, params: CollaboratorParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        signedIn(request)
        const user = await accountOfCollaborator(request.params.collaborator)
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
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const requester = signedIn(request)
        const user = await accountOfCollaborator(request.params.collaborator)
        if (access !== 'admin' && requester.id !== user.id) {
          throw new Refused(refuse.forbidden('only repository admins see the permissions of others'))
        }
        const permission = user.id === repository.ownerId ? 'owner' : accessTo(repository, user)
        return { permission, role_name: permission, user: userWire(user, services.publicUrl()) }
      },
    )

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
        const { repository } = await repositoryFor(services, request, request.params, 'admin')
        const permission = permissionOf(request.body?.permission)
        const user = await accountOfCollaborator(request.params.collaborator)
        const context = commandContext(request)
        await execute(services.events, context, {
          stream: repositoryStream(repository.id),
          step: 'set collaborator',
          decider: repositoryDecider,
          decide: (state) => decideSetCollaborator(state, { id: user.id, login: user.login }, permission),
        })
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )

    app.delete(
      '/repos/:owner/:repo/collaborators/:collaborator',
      { schema: { tags, params: CollaboratorParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'admin')
        const user = await accountOfCollaborator(request.params.collaborator)
        const context = commandContext(request)
        await execute(services.events, context, {
          stream: repositoryStream(repository.id),
          step: 'remove collaborator',
          decider: repositoryDecider,
          decide: (state) => decideRemoveCollaborator(state, { id: user.id, login: user.login }),
        })
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
