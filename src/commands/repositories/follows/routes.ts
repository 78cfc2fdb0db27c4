/** Stars and watches repositories: `/user/starred/{owner}/{repo}`, `/repos/{owner}/{repo}/subscription`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { onRepository, type RepositoryRequest } from '../../../access/repository-access.ts'
import { WatchInfo, watchInfo } from '../../../api/repositories/follows.ts'
import { RepositoryParams } from '../../../api/repositories/repositories.ts'
import { signedIn } from '../../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../../auth/routes.ts'
import { requestContext, settled } from '../../execution/request-context.ts'
import { follow, unfollow } from './change.ts'
import type { FollowKind } from './follow.decider.ts'

export const followRoutes: Routes = (services) => {
  /** Requires read access. */
  async function change(
    request: FastifyRequest & RepositoryRequest,
    reply: FastifyReply,
    kind: FollowKind,
    to: typeof follow,
  ) {
    const { repository } = await onRepository(services, request, 'read')
    const { id, login } = signedIn(request)
    const context = requestContext(request)
    await to(services, context, kind, { repoId: repository.id, user: { id, login } })
    await settled(services, context, reply)
    return { repository, at: context.at }
  }

  return async (app) => {
    const starred = {
      config: { scope: ['user', 'repository'] },
      schema: { tags: ['user'], params: RepositoryParams, response: NO_CONTENT },
    } as const

    app.put('/user/starred/:owner/:repo', starred, async (request, reply) => {
      await change(request, reply, 'starred', follow)
      return reply.code(204).send(null)
    })
    app.delete('/user/starred/:owner/:repo', starred, async (request, reply) => {
      await change(request, reply, 'starred', unfollow)
      return reply.code(204).send(null)
    })

    app.put(
      '/repos/:owner/:repo/subscription',
      route('repository', { params: RepositoryParams, response: { 200: WatchInfo } }),
      async (request, reply) => {
        const { repository, at } = await change(request, reply, 'watched', follow)
        return watchInfo(repository, at, services.publicUrl())
      },
    )
    app.delete(
      '/repos/:owner/:repo/subscription',
      route('repository', { params: RepositoryParams, response: NO_CONTENT }),
      async (request, reply) => {
        await change(request, reply, 'watched', unfollow)
        return reply.code(204).send(null)
      },
    )
  }
}
