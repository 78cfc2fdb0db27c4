/** Adds and removes public keys of a user, for their owner or a site admin. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { type PublicKeyWire, publicKeyWire, sshKeyFor } from '../../api/keys/keys.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { addSshKey, removeSshKey } from './change.ts'
import { type CreateKeyOption, wantedKey } from './key-option.ts'

/** Adds the key in the body. Resolves to its wire form. @throws as `wantedKey` and `addSshKey` */
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

/** Removes the key with this id. @throws Refused (not found) unless the owner has it */
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
