/** Checks the permission to move refs again, when the request has the ref lock. */
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
 * Returns the requester and the repository as they are now, since a request may wait long for the ref lock.
 * @throws Refused when the requester may not write to the repository any more
 */
export async function reauthorizeWriter(
  services: Services,
  request: FastifyRequest,
  repoId: number,
): Promise<Writer> {
  await awaitPermissions(services)
  const requester = await requesterNow(request)
  const found = await repositoryNow(services, requester, repoId, 'write')
  // A node that was suspended may have lost its lock, and then its decision is outdated.
  requireMember(services.nodes)
  return { ...found, requester }
}
