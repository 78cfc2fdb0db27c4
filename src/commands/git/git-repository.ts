/** Finds the repository of a git client, and checks its permission. */
import type { FastifyRequest } from 'fastify'
import { atLeast } from '../../access/access.ts'
import { archivedRefusal } from '../../access/archived.ts'
import {
  type RepositoryAccess,
  type RepositoryPath,
  repositoryAt,
  repositoryFor,
} from '../../access/repository-access.ts'
import { requireScope } from '../../auth/auth.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { mayPushAnyBranch } from '../pull-requests/maintainer-edits.ts'

/** @throws Refused (forbidden); git and git-lfs show the message */
export function requireNotArchived({ archived }: Pick<RepositoryDocument, 'archived'>): void {
  if (archived) throw new Refused(refuse.forbidden(archivedRefusal.message))
}

/**
 * Returns the repository, if the client may read it or push to it. Asks an anonymous client for credentials, whether
 * the repository exists or not: git sends them only then. A signed-in client without access gets 404. Sets the id of
 * the repository in the request.
 */
export async function gitRepository(
  services: Services,
  request: FastifyRequest,
  { owner, repo }: RepositoryPath,
  needed: 'read' | 'write',
): Promise<RepositoryAccess> {
  requireScope(request, ['repository'], needed)
  try {
    const path = { owner, repo: repo.replace(/\.git$/, '') }
    const found = await repositoryAt(services, request.requester, path, 'read')
    const { repository, access } = found
    request.repositoryId = repository.id
    if (needed === 'write' && request.requester !== null) requireNotArchived(repository)
    if (atLeast(access, needed) || (await mayPushAnyBranch(services, repository, request.requester)))
      return found
    return await repositoryFor(services, request.requester, path, needed)
  } catch (error) {
    const missing = error instanceof Refused && error.refusal.refused === 'notFound'
    if (missing && request.requester === null) throw new Refused(refuse.unauthenticated('sign in first'))
    throw error
  }
}
