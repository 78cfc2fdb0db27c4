/** Who asks for a move of refs, and the repository, as they are when the turn has come. */
import type { FastifyRequest } from 'fastify'
import { awaitPermissions } from '../../access/await-permissions.ts'
import { type RepositoryAccess, repositoryNow } from '../../access/repository-access.ts'
import { requesterNow } from '../../auth/auth.ts'
import { requireMember } from '../../events/nodes/nodes.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'

export interface Writer extends RepositoryAccess {
  requester: AccountDocument
}

/**
 * A request may wait long for the turn of the refs. What counts then are the credentials, the rights and the rules of that
 * moment. @throws Refused when the requester may not write to the repository any more
 */
export async function reauthorizeWriter(
  services: Services,
  request: FastifyRequest,
  repoId: number,
): Promise<Writer> {
  await awaitPermissions(services)
  const requester = await requesterNow(request)
  const found = await repositoryNow(services, requester, repoId, 'write')
  // A node that stood still meanwhile may have lost its turn. What it has decided is old then.
  requireMember(services.nodes)
  return { ...found, requester }
}
