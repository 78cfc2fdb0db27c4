/** The look-up of the repository in a path, with a check of the requester's permission. */

import { signedIn } from '../auth/requester.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import type { Permission } from '../events/catalog/organizations.ts'
import { pathNumber } from '../http/requests/path-number.ts'
import {
  type RepositoryDocument,
  repositoryKey,
} from '../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../projections/views/view.ts'
import type { Services } from '../services/services.ts'
import { type Access, accessTo, atLeast } from './access.ts'
import { archivedRefusal, refusalWhenArchived } from './archived.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Id of the repository in the path, once it is looked up. */
    repositoryId: number | null
  }
}

export interface RepositoryPath {
  owner: string
  repo: string
}

export interface RepositoryAccess {
  repository: RepositoryDocument
  access: Access
}

/** A request whose path names a repository. */
export interface RepositoryRequest {
  requester: AccountDocument | null
  params: RepositoryPath
  method: string
  routeOptions: { url?: string | undefined }
  repositoryId?: number | null
}

/**
 * The repository in the request's path, which gets its id. The requester must have at least the needed permission.
 * @throws Refused: not found when the repository does not exist or the requester may not read it; unauthenticated or
 *   forbidden when the permission is too low; locked when the request would change an archived repository
 */
export async function onRepository(
  services: Pick<Services, 'views'>,
  request: RepositoryRequest,
  needed: Permission,
): Promise<RepositoryAccess> {
  const found = await repositoryAt(services, request.requester, request.params, needed)
  const { method, routeOptions } = request
  const refusal = found.repository.archived ? refusalWhenArchived(method, routeOptions.url ?? '') : undefined
  // Anonymous requesters get their own refusal first.
  if (refusal !== undefined && request.requester !== null) throw new Refused(refusal)
  request.repositoryId = found.repository.id
  return found
}

/** Like `onRepository`, for a repository that is not in the request's path. */
export async function repositoryFor(
  services: Pick<Services, 'views'>,
  requester: AccountDocument | null,
  path: RepositoryPath,
  needed: Permission,
): Promise<RepositoryAccess> {
  return accessible(services, requester, await repositoryNamed(services, path), needed)
}

/**
 * Like `repositoryFor`, for the repository in the request's path. An earlier name redirects until it is taken.
 * @throws also Refused (moved)
 */
export async function repositoryAt(
  services: Pick<Services, 'views'>,
  requester: AccountDocument | null,
  path: RepositoryPath,
  needed: Permission,
): Promise<RepositoryAccess> {
  const repository = await repositoryNamed(services, path)
  const moved = repository === undefined ? await movedRepository(services, path) : undefined
  if (moved !== undefined && atLeast(accessTo(moved, requester), 'read')) {
    const { ownerLogin, name } = moved
    throw new Refused(refuse.moved({ from: [path.owner, path.repo], to: [ownerLogin, name] }))
  }
  return accessible(services, requester, repository, needed)
}

/**
 * Returns the current document of a repository that was looked up earlier.
 * @throws Refused: not found, forbidden, or locked when it has been archived
 */
export async function repositoryNow(
  services: Pick<Services, 'views'>,
  requester: AccountDocument,
  repoId: number,
  needed: Permission,
): Promise<RepositoryAccess> {
  const repository = await services.views.repositories.get(`${repoId}`)
  const found = accessible(services, requester, repository, needed)
  if (found.repository.archived) throw new Refused(archivedRefusal)
  return found
}

/** The repository with the id in a path. @throws Refused as `onRepository` */
export async function repositoryWithId(
  services: Pick<Services, 'views'>,
  requester: AccountDocument | null,
  idText: string,
  needed: Permission,
): Promise<RepositoryAccess> {
  const id = pathNumber(idText)
  const repository = id === undefined ? undefined : await services.views.repositories.get(`${id}`)
  return accessible(services, requester, repository, needed)
}

/** Returns the repository with that name, without a permission check. */
export const repositoryNamed = ({ views }: Pick<Services, 'views'>, { owner, repo }: RepositoryPath) =>
  views.repositories.findOne({ key: repositoryKey(owner, repo) })

/** Returns the repository that had that name, unless the name is taken, without a permission check. */
export async function movedRepository(
  { views }: Pick<Services, 'views'>,
  { owner, repo }: RepositoryPath,
): Promise<RepositoryDocument | undefined> {
  const redirect = await views.redirects.get(repositoryKey(owner, repo))
  return redirect && views.repositories.get(`${redirect.repoId}`)
}

function accessible(
  { views }: Pick<Services, 'views'>,
  requester: AccountDocument | null,
  repository: RepositoryDocument | undefined,
  needed: Permission,
): RepositoryAccess {
  const access = repository === undefined ? 'none' : accessTo(repository, requester)
  if (repository === undefined || !atLeast(access, 'read')) {
    throw notFoundIn(views.repositories, 'repository not found')
  }
  if (!atLeast(access, needed)) {
    signedIn({ requester })
    throw new Refused(refuse.forbidden(`this needs ${needed} permission on the repository`))
  }
  return { repository, access }
}
