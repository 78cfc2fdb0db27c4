/** Changing and deleting a repository: `PATCH` and `DELETE /repos/{owner}/{repo}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { RepositorySettings } from '../../events/domain-events.ts'
import { claimKeys, repositoryStream } from '../../events/streams.ts'
import { deleteRepository, setDefaultBranch } from '../../git/repository.ts'
import { commandContext, repositoryFor, settled } from '../../http/requests.ts'
import { branchId } from '../../projections/branches.ts'
import { ownerOf, RepositoryParams, RepositoryWire, repositoryWire } from '../../queries/repositories.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { releaseClaim, takeClaim } from '../claims.ts'
import { execute } from '../execute.ts'
import { Refused, refuse } from '../refusal.ts'
import { holdsRepositoryName } from './create.ts'
import { decideDelete, decideEdit, repositoryDecider } from './repository.ts'
import { requireRepositoryName } from './repository-name.ts'

export const EditRepoOption = Type.Object({
  name: Type.Optional(Type.String()),
  description: Type.Optional(Type.String({ maxLength: 2048 })),
  website: Type.Optional(Type.String({ maxLength: 1024 })),
  private: Type.Optional(Type.Boolean()),
  default_branch: Type.Optional(Type.String()),
})

export function editRepositoryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events, views } = services
  return async (app) => {
    app.patch(
      '/repos/:owner/:repo',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          body: EditRepoOption,
          response: { 200: RepositoryWire },
        },
      },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'admin')
        const { body } = request
        const stream = repositoryStream(repository.id)
        const context = commandContext(request)

        const wanted: Partial<RepositorySettings> = {}
        if (body.name !== undefined) wanted.name = requireRepositoryName(body.name)
        if (body.description !== undefined) wanted.description = body.description
        if (body.website !== undefined) wanted.website = body.website
        if (body.private !== undefined) wanted.private = body.private
        if (body.default_branch !== undefined) {
          const branch = await views.branches.get(branchId(repository.id, body.default_branch))
          if (branch === undefined) throw new Refused(refuse.unprocessable('default_branch: no such branch'))
          wanted.defaultBranch = body.default_branch
        }

        const oldKey = claimKeys.repository(repository.ownerId, repository.name)
        const newKey = claimKeys.repository(repository.ownerId, wanted.name ?? repository.name)
        if (newKey !== oldKey) {
          const claim = await takeClaim(events, context, {
            key: newKey,
            holder: stream,
            stillHolds: (holder) => holdsRepositoryName(services, holder, newKey),
          })
          if (!claim.taken)
            throw new Refused(refuse.conflict('a repository with the same name exists already'))
        }
        if (wanted.defaultBranch !== undefined) {
          await setDefaultBranch(gitDirOf(services, repository.id), wanted.defaultBranch)
        }
        await execute(events, context, {
          stream,
          step: 'edit',
          decider: repositoryDecider,
          decide: (state) => decideEdit(state, wanted),
        })
        if (newKey !== oldKey) await releaseClaim(events, context, oldKey, stream)

        await settled(services, context, reply)
        const edited = await views.repositories.get(`${repository.id}`)
        if (edited === undefined) throw new Refused(refuse.notFound('repository not found'))
        return repositoryWire(edited, await ownerOf(services, edited), 'admin', services.publicUrl())
      },
    )

    app.delete(
      '/repos/:owner/:repo',
      { schema: { tags: ['repository'], params: RepositoryParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'admin')
        const stream = repositoryStream(repository.id)
        const context = commandContext(request)
        await execute(events, context, {
          stream,
          step: 'delete',
          decider: repositoryDecider,
          decide: decideDelete,
        })
        // The event decides; a crash from here on leaves a name that the next one can claim, and objects
        // that the next start removes.
        await releaseClaim(events, context, claimKeys.repository(repository.ownerId, repository.name), stream)
        await deleteRepository(gitDirOf(services, repository.id))
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
