/** Reading users and their access tokens: `/user`, `/user/emails`, `/users/{username}`, `/users/{username}/tokens`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { canSee } from '../../access/visibility.ts'
import { AccessTokenWire, accessTokenWire, tokenOwner } from '../../api/users/tokens.ts'
import {
  accountNamed,
  EmailWire,
  emailWires,
  UsernameParams,
  UserSettingsWire,
  UserWire,
  userSettingsWire,
  userWire,
} from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { tokenUsesOf } from '../../auth/token-uses.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, pagedList, rowsOrPage } from '../paged-list.ts'

export function userQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['user']
    const config = { scope: 'user' } as const

    app.get('/user', { config, schema: { tags, response: { 200: UserWire } } }, async (request) => {
      const requester = signedIn(request)
      return userWire(requester, services.publicUrl(), requester)
    })

    app.get(
      '/user/settings',
      { config, schema: { tags, response: { 200: UserSettingsWire } } },
      async (request) => userSettingsWire(signedIn(request)),
    )

    app.get(
      '/user/emails',
      { config, schema: { tags, ...listSchema(EmailWire) } },
      async (request, reply) => [...rowsOrPage(services, request, reply, emailWires(signedIn(request)))],
    )

    app.get(
      '/users/:username',
      { config, schema: { tags, params: UsernameParams, response: { 200: UserWire } } },
      async (request) => {
        const account = await accountNamed(services, request.params.username)
        if (!canSee(account, request.requester)) throw new Refused(refuse.notFound('user not found'))
        return userWire(account, services.publicUrl(), request.requester)
      },
    )

    app.get(
      '/users/:username/tokens',
      {
        config,
        schema: { tags, params: UsernameParams, ...listSchema(AccessTokenWire) },
      },
      async (request, reply) => {
        const owner = await tokenOwner(services, request, request.params.username)
        const tokens = await pagedList(services, request, reply, {
          view: services.views.tokens,
          filter: { userId: owner.id },
          sort: [['id', 1]],
        })
        const ids = tokens.map(({ id }) => id)
        const uses = await tokenUsesOf(services.secrets, ids)
        return tokens.map((token) => accessTokenWire(token, { usedAt: uses.get(token.id) }))
      },
    )
  }
}
