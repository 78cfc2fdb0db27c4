/** Site admins add and remove the public keys of others: `/admin/users/{username}/keys`. */
import { Type } from 'typebox'
import { siteAdmin } from '../../rights/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { PublicKeyWire, publicKeyWire, sshKeyFor } from '../../wire/keys.ts'
import { UsernameParams, userNamed } from '../../wire/users.ts'
import { commandContext, settled } from '../request-context.ts'
import { addSshKey, removeSshKey } from './change.ts'
import { CreateKeyOption, wantedKey } from './key-option.ts'

const UserKeyParams = Type.Object({ ...UsernameParams.properties, id: Type.String() })

export const adminKeyRoutes: Routes = (services) => async (app) => {
  app.post(
    '/admin/users/:username/keys',
    route('admin', { params: UsernameParams, body: CreateKeyOption, response: { 201: PublicKeyWire } }),
    async (request, reply) => {
      siteAdmin(request, 'add keys of others')
      const owner = await userNamed(services, request.params.username)
      const { id, login } = owner
      const context = commandContext(request)
      const key = await addSshKey(services, context, { id, login }, wantedKey(request.body))
      await settled(services, context, reply)
      return reply.code(201).send(publicKeyWire(key, owner, services.publicUrl()))
    },
  )

  app.delete(
    '/admin/users/:username/keys/:id',
    route('admin', { params: UserKeyParams, response: NO_CONTENT }),
    async (request, reply) => {
      siteAdmin(request, 'remove keys of others')
      const owner = await userNamed(services, request.params.username)
      const key = await sshKeyFor(services, owner, request.params.id)
      const context = commandContext(request)
      await removeSshKey(services, context, key)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
