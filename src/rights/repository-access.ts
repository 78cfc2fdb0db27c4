/** The repository in a path, for whoever may use it so. */
import type { FastifyRequest } from 'fastify'
import type { Permission } from '../events/domain-events.ts'
import { type RepositoryDocument, repositoryKey } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import { type Access, accessTo, atLeast } from './access.ts'
import { signedIn } from './requester.ts'

export interface RepositoryPath {
  owner: string
  repo: string
}

export interface RepositoryAccess {
  repository: RepositoryDocument
  access: Access
}

/**
 * The repository in the path, for a requester who has at least that permission.
 * 404 when it does not exist or the requester may not even read it, 401 / 403 when the permission is too low.
 */
export async function repositoryFor(
  services: Services,
  request: FastifyRequest,
  path: RepositoryPath,
  needed: Permission,
): Promise<RepositoryAccess> {
  const key = repositoryKey(path.owner, path.repo)
  const repository = await services.views.repositories.findOne({ key })
  const access = repository === undefined ? 'none' : accessTo(repository, request.requester)
  if (repository === undefined || !atLeast(access, 'read')) {
    throw new Refused(refuse.notFound('repository not found'))
  }
  if (!atLeast(access, needed)) {
    signedIn(request)
    throw new Refused(refuse.forbidden(`this needs ${needed} permission on the repository`))
  }
  return { repository, access }
}
