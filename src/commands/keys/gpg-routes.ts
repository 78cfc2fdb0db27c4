/** Adds and removes public keys of OpenPGP: `/user/gpg_keys`, `/user/gpg_key_verify`. */
import { Type } from 'typebox'
import { GpgKeyWire, gpgKeyFor, gpgKeyWire } from '../../api/keys/gpg-keys.ts'
import { clientOf, signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { MAX_ARMORED } from '../../domain/openpgp/gpg.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { addGpgKey, removeGpgKey, verifyGpgKey } from './change-gpg.ts'

const Armored = Type.String({ minLength: 1, maxLength: MAX_ARMORED })

const CreateGPGKeyOption = Type.Object(
  {
    armored_public_key: Armored,
    armored_signature: Type.Optional(Type.String({ maxLength: MAX_ARMORED })),
  },
  { title: 'CreateGPGKeyOption' },
)

/** gitea-js has no fields for it; these are Gitea's. */
const VerifyGPGKeyOption = Type.Object(
  {
    key_id: Type.String({ minLength: 1, maxLength: 18 }),
    armored_signature: Armored,
  },
  { title: 'VerifyGPGKeyOption' },
)

const KeyParams = Type.Object({ id: Type.String() })

export const gpgKeyRoutes: Routes = (services) => async (app) => {
  app.post(
    '/user/gpg_keys',
    route('user', { body: CreateGPGKeyOption, response: { 201: GpgKeyWire } }),
    async (request, reply) => {
      const owner = signedIn(request)
      const { armored_public_key: armored, armored_signature: signature = '' } = request.body
      const context = commandContext(request)
      const key = await addGpgKey(services, context, owner, { client: clientOf(request), armored, signature })
      await settled(services, context, reply)
      return reply.code(201).send(gpgKeyWire(key, owner, owner))
    },
  )

  app.post(
    '/user/gpg_key_verify',
    route('user', { body: VerifyGPGKeyOption, response: { 201: GpgKeyWire } }),
    async (request, reply) => {
      const owner = signedIn(request)
      const { key_id: longId, armored_signature: signature } = request.body
      const context = commandContext(request)
      const key = await verifyGpgKey(services, context, owner, {
        client: clientOf(request),
        longId,
        signature,
      })
      await settled(services, context, reply)
      return reply.code(201).send(gpgKeyWire(key, owner, owner))
    },
  )

  app.delete(
    '/user/gpg_keys/:id',
    route('user', { params: KeyParams, response: NO_CONTENT }),
    async (request, reply) => {
      const key = await gpgKeyFor(services, signedIn(request), request.params.id)
      const context = commandContext(request)
      await removeGpgKey(services, context, key)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
