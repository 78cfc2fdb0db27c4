/** The access tokens of a user: `GET /users/{username}/tokens`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Services } from '../services.ts'
import { AccessTokenWire, accessTokenWire, tokenOwner } from '../wire/tokens.ts'
import { UsernameParams } from '../wire/users.ts'
import { listSchema, pagedList } from './paged-list.ts'

export function tokenQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/users/:username/tokens',
      {
        config: { scope: 'user' },
        schema: { tags: ['user'], params: UsernameParams, ...listSchema(AccessTokenWire) },
      },
      async (request, reply) => {
        const owner = await tokenOwner(services, request, request.params.username)
        const tokens = await pagedList(services, request, reply, {
          view: services.views.tokens,
          filter: { userId: owner.id },
          sort: [['id', 1]],
        })
        return tokens.map((token) => accessTokenWire(token))
      },
    )
  }
}
