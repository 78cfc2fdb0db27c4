/** Stars and watches. A user's list has the repositories that the requester may read, with two indexed reads. */
import type { FastifyReply } from 'fastify'
import { readableBy } from '../../access/access.ts'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { canSee } from '../../access/visibility.ts'
import { WatchInfo, watchInfo } from '../../api/repositories/follows.ts'
import { RepositoryParams, RepositoryWire, repositoryWires } from '../../api/repositories/repositories.ts'
import { UsernameParams, UserWire, userNamed, usersById } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { repoIdIn } from '../../projections/models/issues/issue-selection.ts'
import { type FollowDocument, followId } from '../../projections/models/repositories/follows.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import { listSchema, type PageRequest, pagedList } from '../paged-list.ts'

const KINDS = {
  starred: { filter: { starred: true }, oldestFirst: [['starredAt', 1]] },
  watched: { filter: { watched: true }, oldestFirst: [['watchedAt', 1]] },
} as const satisfies Record<string, { filter: Filter<FollowDocument>; oldestFirst: Sort<FollowDocument> }>
type Kind = keyof typeof KINDS

export const followQueryRoutes: Routes = (services) => {
  const { follows, repositories } = services.views

  async function repositoriesOf(
    request: PageRequest,
    reply: FastifyReply,
    { id }: AccountDocument,
    kind: Kind,
  ) {
    const own = await follows.ids({ userId: id, ...KINDS[kind].filter })
    const found = await pagedList(services, request, reply, {
      view: repositories,
      filter: { ...readableBy(request.requester), id: { $in: own.map(repoIdIn) } },
      sort: [['id', -1]],
    })
    return repositoryWires(services, found, request.requester)
  }

  async function peopleOf(request: PageRequest & RepositoryRequest, reply: FastifyReply, kind: Kind) {
    const { repository } = await onRepository(services, request, 'read')
    const { filter, oldestFirst } = KINDS[kind]
    const found = await pagedList(services, request, reply, {
      view: follows,
      filter: { repoId: repository.id, ...filter },
      sort: oldestFirst,
    })
    const people = await usersById(
      services,
      found.map(({ userId }) => userId),
    )
    return found.flatMap(({ userId }) => people.get(userId) ?? [])
  }

  async function ownFollow(request: Parameters<typeof signedIn>[0] & RepositoryRequest) {
    const { repository } = await onRepository(services, request, 'read')
    return { repository, follow: await follows.get(followId(repository.id, signedIn(request).id)) }
  }

  return async (app) => {
    const tags = ['user']
    const ofUser = { scope: 'user' } as const
    const ownStars = { scope: ['user', 'repository'] } as const

    // The scopes are Gitea's.
    for (const { path, kind, config } of [
      { path: 'starred', kind: 'starred', config: ownStars },
      { path: 'subscriptions', kind: 'watched', config: ofUser },
    ] as const) {
      app.get(
        `/user/${path}`,
        { config, schema: { tags, ...listSchema(RepositoryWire) } },
        async (request, reply) => repositoriesOf(request, reply, signedIn(request), kind),
      )
      app.get(
        `/users/:username/${path}`,
        { config: ofUser, schema: { tags, params: UsernameParams, ...listSchema(RepositoryWire) } },
        async (request, reply) => {
          const user = await userNamed(services, request.params.username)
          if (!canSee(user, request.requester)) throw new Refused(refuse.notFound('user not found'))
          return repositoriesOf(request, reply, user, kind)
        },
      )
    }

    app.get(
      '/user/starred/:owner/:repo',
      { config: ownStars, schema: { tags, params: RepositoryParams, response: NO_CONTENT } },
      async (request, reply) => {
        const { follow } = await ownFollow(request)
        if (follow?.starred !== true) throw new Refused(refuse.notFound('you have not starred it'))
        return reply.code(204).send(null)
      },
    )

    app.get(
      '/repos/:owner/:repo/subscription',
      route('repository', { params: RepositoryParams, response: { 200: WatchInfo } }),
      async (request) => {
        const { repository, follow } = await ownFollow(request)
        if (follow?.watched !== true) throw new Refused(refuse.notFound('you do not watch it'))
        return watchInfo(repository, follow.watchedAt, services.publicUrl())
      },
    )

    app.get(
      '/repos/:owner/:repo/stargazers',
      route('repository', { params: RepositoryParams, ...listSchema(UserWire) }),
      async (request, reply) => peopleOf(request, reply, 'starred'),
    )
    app.get(
      '/repos/:owner/:repo/subscribers',
      route('repository', { params: RepositoryParams, ...listSchema(UserWire) }),
      async (request, reply) => peopleOf(request, reply, 'watched'),
    )
  }
}
