/** The pull request between two branches: `GET /repos/{owner}/{repo}/pulls/{base}/{head}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { PullRequestWire, pullWire } from '../../api/pull-requests/pulls.ts'
import { branchKey } from '../../projections/models/pull-requests/pulls.fold.ts'
import { repositoryKey } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'

const BranchesParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  index: Type.String({ description: 'Name of the base branch' }),
  '*': Type.String({ description: 'Name of the head branch, or `owner:branch` for a branch of a fork' }),
})

/** Only one pull request between two branches can be open, and it is among the newest. */
const NEWEST = { sort: [['index', -1]], limit: 100 } as const

export function pullByBranchesRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services

  /** Returns the id of the head's repository. As in Gitea, assumes that a fork has the name of its base. */
  async function headRepository(base: { id: number; name: string }, owner: string | undefined) {
    if (owner === undefined) return base.id
    return (await views.repositories.findOne({ key: repositoryKey(owner, base.name) }))?.id
  }

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/*',
      { schema: { tags: ['repository'], params: BranchesParams, response: { 200: PullRequestWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const { index: base, '*': given } = request.params
        const [, owner, branch = given] = /^([^:]+):(.+)$/.exec(given) ?? []
        const headId = await headRepository(repository, owner)
        const missing = notFoundIn(views.pulls, 'there is no pull request between these branches')
        if (headId === undefined) throw missing
        const baseKey = branchKey(repository.id, base)
        const found = await views.pulls.find({ headKey: branchKey(headId, branch), baseKey }, NEWEST)
        const pull = found.find(({ status }) => status === 'open') ?? found[0]
        if (pull === undefined) throw missing
        return pullWire(services, repository, pull, request.requester)
      },
    )
  }
}
