/** Reads OpenPGP public keys, which every client may see. */
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { canSee } from '../../access/visibility.ts'
import { GpgKeyWire, gpgKeyFor, gpgKeyWire } from '../../api/keys/gpg-keys.ts'
import { UsernameParams, userNamed } from '../../api/users/users.ts'
import { gpgTokens } from '../../auth/gpg-token.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { listSchema, type PageRequest, pagedList } from '../paged-list.ts'

const BY_ID = [['id', 1]] as const
const KeyParams = Type.Object({ id: Type.String() })
const TOKEN = {
  200: { description: 'Text to sign', content: { 'text/plain': { schema: Type.String() } } },
}

export const gpgKeyQueryRoutes: Routes = (services) => {
  async function keysOf(request: PageRequest, reply: FastifyReply, owner: AccountDocument) {
    const { gpgKeys: view } = services.views
    const found = await pagedList(services, request, reply, {
      view,
      filter: { userId: owner.id },
      sort: BY_ID,
    })
    return found.map((key) => gpgKeyWire(key, owner, request.requester))
  }

  return async (app) => {
    app.get('/user/gpg_keys', route('user', listSchema(GpgKeyWire)), async (request, reply) =>
      keysOf(request, reply, signedIn(request)),
    )
    app.get(
      '/user/gpg_keys/:id',
      route('user', { params: KeyParams, response: { 200: GpgKeyWire } }),
      async (request) => {
        const owner = signedIn(request)
        return gpgKeyWire(await gpgKeyFor(services, owner, request.params.id), owner, owner)
      },
    )
    app.get(
      '/users/:username/gpg_keys',
      route('user', { params: UsernameParams, ...listSchema(GpgKeyWire) }),
      async (request, reply) => {
        const owner = await userNamed(services, request.params.username)
        if (!canSee(owner, request.requester)) throw new Refused(refuse.notFound('user not found'))
        return keysOf(request, reply, owner)
      },
    )
    app.get('/user/gpg_key_token', route('user', { response: TOKEN }), async (request, reply) => {
      const [token] = gpgTokens(signedIn(request), Date.now())
      return reply.type('text/plain; charset=utf-8').send(token)
    })
  }
}
