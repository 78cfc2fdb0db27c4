/** Reading users: `/user`, `/users/{username}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Refused, refuse } from '../refusal.ts'
import { signedIn } from '../rights/requester.ts'
import { canSee } from '../rights/visibility.ts'
import type { Services } from '../services.ts'
import { accountNamed, UsernameParams, UserWire, userWire } from '../wire/users.ts'

export function userQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['user']
    const config = { scope: 'user' } as const

    app.get('/user', { config, schema: { tags, response: { 200: UserWire } } }, async (request) => {
      const requester = signedIn(request)
      return userWire(requester, services.publicUrl(), requester)
    })

    app.get(
      '/users/:username',
      { config, schema: { tags, params: UsernameParams, response: { 200: UserWire } } },
      async (request) => {
        const account = await accountNamed(services, request.params.username)
        if (!canSee(account, request.requester)) throw new Refused(refuse.notFound('user not found'))
        return userWire(account, services.publicUrl(), request.requester)
      },
    )
  }
}
