/** Reading branch protections. They are part of the repository's document. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { sendOnePage } from '../http/paging.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import {
  BranchProtectionWire,
  ProtectionParams,
  protectionNamed,
  protectionWire,
  protectionWires,
} from '../wire/branch-protections.ts'
import { RepositoryParams } from '../wire/repositories.ts'

export function branchProtectionQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/branch_protections',
      { schema: { tags, params: RepositoryParams, response: { 200: Type.Array(BranchProtectionWire) } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        sendOnePage(request, reply, services.publicUrl(), repository.protections.length)
        return await protectionWires(services, repository.protections)
      },
    )

    app.get(
      '/repos/:owner/:repo/branch_protections/*',
      { schema: { tags, params: ProtectionParams, response: { 200: BranchProtectionWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'admin')
        return await protectionWire(services, protectionNamed(repository, request.params['*']))
      },
    )
  }
}
