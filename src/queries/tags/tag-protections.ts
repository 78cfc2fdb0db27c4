/** Reading tag protections. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { onRepository } from '../../access/repository-access.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import {
  TagProtectionParams,
  TagProtectionWire,
  tagProtectionId,
  tagProtectionWire,
  tagProtectionWires,
} from '../../api/tags/tag-protections.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, rowsOrPage } from '../paged-list.ts'

export function tagProtectionQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const protectionsOf = async (repoId: number) =>
    (await services.views.tagProtections.get(`${repoId}`))?.protections ?? []
  return async (app) => {
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/tag_protections',
      { schema: { tags, params: RepositoryParams, ...listSchema(TagProtectionWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const all = await protectionsOf(repository.id)
        return tagProtectionWires(services, repository, rowsOrPage(services, request, reply, all))
      },
    )

    app.get(
      '/repos/:owner/:repo/tag_protections/:id',
      { schema: { tags, params: TagProtectionParams, response: { 200: TagProtectionWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'admin')
        const all = await protectionsOf(repository.id)
        return await tagProtectionWire(services, repository, all, tagProtectionId(request.params.id))
      },
    )
  }
}
