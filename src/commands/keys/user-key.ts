/** The public keys of a user: added and removed by their owner, or by a site admin. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { type PublicKeyWire, publicKeyWire, sshKeyFor } from '../../api/keys/keys.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { addSshKey, removeSshKey } from './change.ts'
import { type CreateKeyOption, wantedKey } from './key-option.ts'

/** Adds the key in the body. Resolves to the key on the wire. @throws what `wantedKey` and `addSshKey` throw */
export async function addUserKey(
  services: Services,
  request: FastifyRequest & { body: Static<typeof CreateKeyOption> },
  reply: FastifyReply,
  owner: AccountDocument,
): Promise<Static<typeof PublicKeyWire>> {
  const { id, login } = owner
  const context = commandContext(request)
  const key = await addSshKey(services, context, { id, login }, wantedKey(request.body))
  await settled(services, context, reply)
  return publicKeyWire(key, owner, services.publicUrl())
}

/** Removes the key with this id. @throws Refused (not found) when it is not one of the owner's */
export async function removeUserKey(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  owner: AccountDocument,
  id: string,
): Promise<void> {
  const key = await sshKeyFor(services, owner, id)
  const context = commandContext(request)
  await removeSshKey(services, context, key)
  await settled(services, context, reply)
}
