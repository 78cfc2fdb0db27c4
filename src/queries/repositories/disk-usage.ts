/** Disk usage of repositories, the largest first, for site admins: `GET /admin/repos`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { siteAdmin } from '../../auth/requester.ts'
import { route } from '../../auth/routes.ts'
import { pageOf, sendPaging } from '../../http/requests/paging.ts'
import type { Services } from '../../services/services.ts'
import { listSchema } from '../paged-list.ts'

const kib = (bytes: number) => Math.ceil(bytes / 1024)

const RepositoryUsageWire = Type.Object({
  id: Type.Integer(),
  full_name: Type.String(),
  owner: Type.String(),
  size: Type.Integer({
    description: 'Size of the git data on disk, in KiB; data that forks share counts for each',
  }),
  attachments_size: Type.Integer({ description: 'Size of the attachments, in KiB' }),
  measured_at: Type.String(),
})

export function diskUsageRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { diskUsage, views, config } = services
  return async (app) => {
    app.get(
      '/admin/repos',
      {
        preValidation: async (request) => void siteAdmin(request, 'see the disk usage of all repositories'),
        ...route('admin', listSchema(RepositoryUsageWire)),
      },
      async (request, reply) => {
        const page = pageOf(request.query, config)
        const { rows, total } = await diskUsage.largest({ skip: page.skip, limit: page.limit })
        const usages = rows.flatMap((row) => ('body' in row ? [row.body] : []))
        const found = await views.repositories.getMany(usages.map(({ repoId }) => `${repoId}`))
        const byId = new Map(found.map((repository) => [repository.id, repository]))
        sendPaging(request, reply, services.publicUrl(), page, total)
        return usages.flatMap(({ repoId: id, gitBytes, attachmentBytes, measuredAt }) => {
          const repository = byId.get(id)
          if (repository === undefined) return []
          const { ownerLogin, name } = repository
          const sizes = { size: kib(gitBytes), attachments_size: kib(attachmentBytes) }
          return [
            { id, full_name: `${ownerLogin}/${name}`, owner: ownerLogin, ...sizes, measured_at: measuredAt },
          ]
        })
      },
    )
  }
}
