/** Adds and removes public keys of any user, for site admins: `/admin/users/{username}/keys`. */
import { Type } from 'typebox'
import { PublicKeyWire } from '../../api/keys/keys.ts'
import { UsernameParams, userNamed } from '../../api/users/users.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { CreateKeyOption } from './key-option.ts'
import { addUserKey, removeUserKey } from './user-key.ts'

const UserKeyParams = Type.Object({ ...UsernameParams.properties, id: Type.String() })

export const adminKeyRoutes: Routes = (services) => async (app) => {
  app.post(
    '/admin/users/:username/keys',
    route('admin', { params: UsernameParams, body: CreateKeyOption, response: { 201: PublicKeyWire } }),
    async (request, reply) => {
      siteAdmin(request, 'add keys of other users')
      const owner = await userNamed(services, request.params.username)
      return reply.code(201).send(await addUserKey(services, request, reply, owner))
    },
  )

  app.delete(
    '/admin/users/:username/keys/:id',
    route('admin', { params: UserKeyParams, response: NO_CONTENT }),
    async (request, reply) => {
      siteAdmin(request, 'remove keys of other users')
      const owner = await userNamed(services, request.params.username)
      await removeUserKey(services, request, reply, owner, request.params.id)
      return reply.code(204).send(null)
    },
  )
}
