/** Recognizes errors of git in a repository that is deleted while a request reads it: its objects vanish one by one. */
import { join } from 'node:path'
import type { FastifyRequest } from 'fastify'
import { GitFailed, RepositoryMissing } from '../git/process/errors.ts'
import { gitDirOf, type Services } from '../services/services.ts'
import { exists } from '../storage/disk.ts'

/** Returns the error, or RepositoryMissing when the repository is being deleted: a deletion renames it first. */
export async function deletedMeanwhile(
  services: Pick<Services, 'gitDir'>,
  { repositoryId }: Pick<FastifyRequest, 'repositoryId'>,
  error: Error,
): Promise<Error> {
  if (!(error instanceof GitFailed) || repositoryId === null) return error
  const dir = gitDirOf(services, repositoryId)
  return (await exists(join(dir, 'HEAD'))) ? error : new RepositoryMissing(`no repository at ${dir}`)
}
