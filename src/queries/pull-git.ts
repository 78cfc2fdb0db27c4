/** What of a pull request only git knows, and is asked when somebody looks. */
import type { FastifyRequest } from 'fastify'
import { GitFailed } from '../git/errors.ts'
import type { PullDocument } from '../projections/pulls.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { repositoryFor } from '../rights/repository-access.ts'
import { gitDirOf, type Services } from '../services.ts'
import { pullFor } from '../wire/pulls.ts'

export interface PullInGit {
  repository: RepositoryDocument
  pull: PullDocument
  /** The base repository's: it has the commits of forks, too, and those of branches that are gone. */
  dir: string
}

/** The pull request in the path for who may read it, or 404. */
export async function pullInGit(
  services: Services,
  request: FastifyRequest,
  path: { owner: string; repo: string; index: string },
): Promise<PullInGit> {
  const { repository } = await repositoryFor(services, request.requester, path, 'read')
  const pull = await pullFor(services, repository.id, path.index)
  return { repository, pull, dir: gitDirOf(services, pull.repoId) }
}

/** Asks git something that it can always answer of commits that are there; 404 when they are gone. */
export async function askGit<T>(request: FastifyRequest, question: () => Promise<T>): Promise<T> {
  try {
    return await question()
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    request.log.warn({ err: error }, 'commits of a pull request are gone')
    throw new Refused(refuse.notFound('the commits of this pull request are not there any more'))
  }
}
