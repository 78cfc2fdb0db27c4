/** Lists the servers of this installation: `GET /admin/nodes`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { siteAdmin } from '../../auth/requester.ts'
import type { Services } from '../../services/services.ts'

const NodesWire = Type.Object({
  nodes: Type.Array(
    Type.Object({
      id: Type.String({ description: 'UUID of the process; changes at each start' }),
      name: Type.String({ description: 'Name of the node: `NODE_NAME`' }),
      version: Nullable(Type.String(), { description: 'Version of its program; null when unknown' }),
    }),
    { description: 'Live nodes; the answering one is first' },
  ),
})

export function nodeRoutes({ nodes }: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/admin/nodes',
      { config: { scope: 'admin' }, schema: { tags: ['admin'], response: { 200: NodesWire } } },
      async (request) => {
        siteAdmin(request, 'list nodes')
        return { nodes: nodes.all().map(({ id, name, version = null }) => ({ id, name, version })) }
      },
    )
  }
}
