/** Reading branch protections. They are part of the repository's document. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { onRepository } from '../../access/repository-access.ts'
import {
  BranchProtectionWire,
  ProtectionParams,
  protectionNamed,
  protectionWire,
  protectionWires,
} from '../../api/branches/branch-protections.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, rowsOrPage } from '../paged-list.ts'

export function branchProtectionQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/branch_protections',
      { schema: { tags, params: RepositoryParams, ...listSchema(BranchProtectionWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        return protectionWires(
          services,
          repository,
          rowsOrPage(services, request, reply, repository.protections),
        )
      },
    )

    app.get(
      '/repos/:owner/:repo/branch_protections/*',
      { schema: { tags, params: ProtectionParams, response: { 200: BranchProtectionWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'admin')
        return await protectionWire(services, repository, protectionNamed(repository, request.params['*']))
      },
    )
  }
}
