/** The access tokens of a user: `GET /users/{username}/tokens`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { PageQuery } from '../http/paging.ts'
import type { Services } from '../services.ts'
import { AccessTokenWire, tokenOwner } from '../wire/tokens.ts'
import { UsernameParams } from '../wire/users.ts'
import { pagedList } from './paged-list.ts'

export function tokenQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/users/:username/tokens',
      {
        config: { scope: 'user' },
        schema: {
          tags: ['user'],
          params: UsernameParams,
          querystring: Type.Object(PageQuery),
          response: { 200: Type.Array(AccessTokenWire) },
        },
      },
      async (request, reply) => {
        const owner = await tokenOwner(services, request, request.params.username)
        const tokens = await pagedList(services, request, reply, {
          view: services.views.tokens,
          filter: { userId: owner.id },
          sort: [['id', 1]],
        })
        return tokens.map(({ id, name, lastEight, scopes }) => ({
          id,
          name,
          sha1: '',
          token_last_eight: lastEight,
          scopes,
        }))
      },
    )
  }
}
