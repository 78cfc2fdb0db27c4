/** Reads branches from the read model. Only the signature of a single branch needs git. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { BranchParams, BranchWire, branchWire } from '../../api/branches/branches.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { timeSlices } from '../../concurrency/event-loop.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { verificationOf } from '../contents/commit-answers.ts'
import { listSchema, pagedList } from '../paged-list.ts'

export function branchQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/branches',
      { schema: { tags: ['repository'], params: RepositoryParams, ...listSchema(BranchWire) } },
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const found = await pagedList(services, request, reply, {
          view: services.views.branches,
          filter: { repoId: repository.id },
          sort: [['name', 1]],
        })
        const publicUrl = services.publicUrl()
        const viewer = { requester: request.requester, access }
        const wires: Static<typeof BranchWire>[] = []
        // Matching long names with long patterns of protections takes time.
        const { pauseIfOver } = timeSlices()
        for (const branch of found) {
          wires.push(branchWire(branch, repository, viewer, publicUrl))
          await pauseIfOver()
        }
        return wires
      },
    )

    app.get(
      '/repos/:owner/:repo/branches/*',
      { schema: { tags: ['repository'], params: BranchParams, response: { 200: BranchWire } } },
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const branch = await services.views.branches.get(branchId(repository.id, request.params['*']))
        if (branch === undefined) throw notFoundIn(services.views.branches, 'branch not found')
        const viewer = { requester: request.requester, access }
        const verification = branch.commit.isSigned
          ? await verificationOf(services, request, reply, repository.id, branch.commit.sha)
          : null
        return branchWire(branch, repository, viewer, services.publicUrl(), verification)
      },
    )
  }
}
