/**
 * Reads one repository, its languages and its forks: `/repos/{owner}/{repo}`, `/repositories/{id}`,
 * `/repos/{owner}/{repo}/languages`, `…/forks`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { readableBy } from '../../access/access.ts'
import { onRepository, repositoryWithId } from '../../access/repository-access.ts'
import {
  RepositoryParams,
  RepositoryWire,
  repositoryPage,
  repositoryWires,
} from '../../api/repositories/repositories.ts'
import { clientOf } from '../../auth/requester.ts'
import { languagesOf } from '../../git/repository/languages.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { askGit } from '../contents/commit-answers.ts'
import { listSchema, pagedList } from '../paged-list.ts'

export function repositoryQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo',
      { schema: { tags: ['repository'], params: RepositoryParams, response: { 200: RepositoryWire } } },
      async (request) => {
        const { repository, access } = await onRepository(services, request, 'read')
        return repositoryPage(services, repository, access, request.requester)
      },
    )

    app.get(
      '/repos/:owner/:repo/languages',
      {
        schema: {
          tags: ['repository'],
          description: 'Bytes of the files of the default branch by language, the largest first',
          params: RepositoryParams,
          response: { 200: Type.Record(Type.String(), Type.Integer()) },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const branch = await services.views.branches.get(branchId(repository.id, repository.defaultBranch))
        if (branch === undefined) return {}
        const usage = (await services.diskUsage.getMany([repository.id])).get(repository.id)
        if (usage?.languages?.commit === branch.commit.sha) return usage.languages.bytes
        const dir = gitDirOf(services, repository.id)
        return await askGit(request, branch.commit.sha, () =>
          services.gitLimits.diffs.ask(clientOf(request), disconnectSignal(reply), (slot) =>
            languagesOf(dir, branch.commit.sha, slot),
          ),
        )
      },
    )

    app.get(
      '/repositories/:id',
      {
        schema: {
          tags: ['repository'],
          params: Type.Object({ id: Type.String() }),
          response: { 200: RepositoryWire },
        },
      },
      async (request) => {
        const { requester, params } = request
        const { repository, access } = await repositoryWithId(services, requester, params.id, 'read')
        return repositoryPage(services, repository, access, requester)
      },
    )

    app.get(
      '/repos/:owner/:repo/forks',
      { schema: { tags: ['repository'], params: RepositoryParams, ...listSchema(RepositoryWire) } },
      async (request, reply) => {
        const { requester } = request
        const { repository } = await onRepository(services, request, 'read')
        const forks = await pagedList(services, request, reply, {
          view: services.views.repositories,
          filter: { parentId: repository.id, ...readableBy(requester) },
          sort: [['id', 1]],
        })
        return repositoryWires(services, forks, requester)
      },
    )
  }
}
