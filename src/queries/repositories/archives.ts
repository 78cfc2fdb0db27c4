/** Archives: `GET /repos/{owner}/{repo}/archive/{ref}.zip`, `.tar.gz` and `.bundle`, and `/{owner}/{repo}/archive/…`. */
import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import contentDisposition from 'content-disposition'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { commitFor } from '../../api/contents/contents-at.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { clientOf } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { GitFailed } from '../../git/process/errors.ts'
import { ARCHIVE_FORMATS, type ArchiveFormat, archiveStream } from '../../git/repository/archive.ts'
import { matchesTag } from '../../http/answers/entity-tags.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { FILE_ANSWER, FILE_HEADERS } from '../contents/file-answers.ts'

const TYPES: Record<ArchiveFormat, string> = {
  zip: 'application/zip',
  'tar.gz': 'application/gzip',
  bundle: 'application/octet-stream',
}

/** Refuses a commit that an archive cannot represent: a zip, for example, has no times before 1970. @throws always */
function refuseUnfit(request: FastifyRequest, error: unknown): never {
  if (!(error instanceof GitFailed)) throw error
  request.log.warn({ err: error }, 'git cannot create an archive of a commit')
  throw new Refused(refuse.unprocessable('git cannot create this kind of archive for this commit'))
}

async function sendArchive(
  services: Services,
  request: FastifyRequest & RepositoryRequest,
  reply: FastifyReply,
  archive: string,
): Promise<FastifyReply> {
  const { repository } = await onRepository(services, request, 'read')
  const format = ARCHIVE_FORMATS.find((known) => archive.endsWith(`.${known}`))
  if (format === undefined) {
    throw new Refused(refuse.invalid(`archive: must end with .${ARCHIVE_FORMATS.join(', .')}`))
  }
  const name = archive.slice(0, -format.length - 1)
  const { sha } = await commitFor(services, { request, reply }, repository, name)
  // Weak, because another version of git may pack the same files differently.
  const tag = `W/"${sha}.${format}"`
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const permanent = `${services.publicUrl()}/api/v1/repos/${fullName}/archive/${sha}.${format}?rev=${sha}`
  const headers = { ...FILE_HEADERS, ETag: tag, Link: `<${permanent}>; rel="immutable"` }
  if (matchesTag(request.headers['if-none-match'], tag)) return reply.headers(headers).code(304).send(null)
  const file = `${repository.name}-${name.replaceAll('/', '-')}.${format}`
  const stream =
    request.method === 'HEAD'
      ? Readable.from([])
      : await archiveStream(gitDirOf(services, repository.id), sha, format, {
          directory: repository.name.toLowerCase(),
          signal: disconnectSignal(reply),
          share: services.gitLimits.reads.shareOf(clientOf(request)),
        }).then(
          (output) => output.stream,
          (error: unknown) => refuseUnfit(request, error),
        )
  return reply
    .headers(headers)
    .type(TYPES[format])
    .header('Content-Disposition', contentDisposition(file))
    .send(stream)
}

const options = {
  compress: false,
  config: { scope: 'repository' },
  schema: {
    tags: ['repository'],
    params: Type.Object({ ...RepositoryParams.properties, '*': Type.String() }),
    response: FILE_ANSWER,
  },
} as const

export function archiveRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get('/repos/:owner/:repo/archive/*', options, async (request, reply) =>
      sendArchive(services, request, reply, request.params['*']),
    )
  }
}

/** The usual addresses for browsers and build tools, outside the API. */
export function archivePageRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get('/:owner/:repo/archive/*', options, async (request, reply) =>
      sendArchive(services, request, reply, request.params['*']),
    )
  }
}
