/** Reading the parts of a pull request that only git knows. */
import type { FastifyRequest } from 'fastify'
import { GitFailed } from '../git/errors.ts'
import type { PullDocument } from '../projections/pulls.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { gitDirOf, type Services } from '../services.ts'
import { onPull } from '../wire/pulls.ts'

interface PullInGit {
  repository: RepositoryDocument
  pull: PullDocument
  /** The git directory of the base repository. It also has commits of forks and of deleted branches. */
  dir: string
}

/** The pull request in the path, if the requester may read it. @throws Refused (not found) */
export async function pullInGit(
  services: Services,
  request: Parameters<typeof onPull>[1],
): Promise<PullInGit> {
  const { repository, pull } = await onPull(services, request, 'read')
  return { repository, pull, dir: gitDirOf(services, pull.repoId) }
}

/** Asks git about commits of a pull request. git fails only when they are gone. @throws Refused (not found) */
export async function askGit<T>(request: FastifyRequest, question: () => Promise<T>): Promise<T> {
  try {
    return await question()
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    request.log.warn({ err: error }, 'the commits of a pull request are gone')
    throw new Refused(refuse.notFound('the commits of this pull request no longer exist'))
  }
}
