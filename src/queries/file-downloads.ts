/** The bytes of files: `GET /repos/{owner}/{repo}/raw/{path}` and `…/media/{path}`, and the pages' `/{owner}/{repo}/raw/…`. */
import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import contentDisposition from 'content-disposition'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { HEAD_BYTES, servedAs, sniff } from '../attachments/file-kind.ts'
import { blobHeader, blobStream, isSmall, smallBlobs } from '../git/blobs.ts'
import { commitAndPath } from '../git/named-commit.ts'
import { kindOf } from '../git/tree-entries.ts'
import { clientGone } from '../http/client-gone.ts'
import { matchesTag } from '../http/entity-tags.ts'
import { OptionalText } from '../http/optional-text.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { onRepository } from '../rights/repository-access.ts'
import { clientOf } from '../rights/requester.ts'
import { gitDirOf, type Services } from '../services.ts'
import { commitFor, entryFor } from '../wire/contents-at.ts'
import { RepositoryParams } from '../wire/repositories.ts'
import { FILE_ANSWER, FILE_HEADERS } from './file-answers.ts'

/** A file at a commit. */
interface FileAt {
  repository: RepositoryDocument
  commit: { sha: string }
  path: string
}

/** Sends a file as it is in git. @throws Refused (not found) for what is no file */
async function sendFile(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  { repository, commit, path }: FileAt,
): Promise<FastifyReply> {
  const named = { kind: 'commit', name: commit.sha, sha: commit.sha } as const
  const { entry, parts } = await entryFor(services, { repository, commit: named }, path)
  const kind = kindOf(entry)
  if (kind === 'dir' || kind === 'submodule')
    throw new Refused(refuse.notFound(`this is a ${kind}, not a file`))
  const dir = gitDirOf(services, repository.id)
  const tag = `"${entry.id}"`
  const tagged = { ETag: tag, 'X-Gitea-Object-Type': kind }
  if (matchesTag(request.headers['if-none-match'], tag)) {
    return reply
      .headers({ ...tagged, ...FILE_HEADERS })
      .code(304)
      .send(null)
  }
  const header = await blobHeader(dir, entry.id)
  const content = isSmall(header) ? (await smallBlobs(dir, [header])).get(header.sha) : undefined
  const share = services.gitLimits.reads.shareOf(clientOf(request))
  const output =
    content === undefined ? await blobStream(dir, entry.id, { signal: clientGone(reply), share }) : undefined
  const name = parts.at(-1) ?? ''
  const { type, disposition } = servedAs(
    name,
    await sniff((content ?? output?.first ?? Buffer.alloc(0)).subarray(0, HEAD_BYTES)),
  )
  reply
    .headers({ ...tagged, ...FILE_HEADERS })
    .type(type)
    // Text does no harm in a browser, and people want to read it.
    .header(
      'Content-Disposition',
      contentDisposition(name, { type: type.startsWith('text/plain') ? 'inline' : disposition }),
    )
    .header('Content-Length', header.size)
  if (request.method === 'HEAD') {
    output?.stream.destroy()
    return reply.send(Readable.from([]))
  }
  return reply.send(content ?? output?.stream)
}

const ref = OptionalText('a branch, a tag or a commit; without it, the path may begin with one')

/** The routes of the API. A file of LFS is its pointer for both. */
export function fileDownloadRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    for (const word of ['raw', 'media'] as const) {
      app.get(
        `/repos/:owner/:repo/${word}/*`,
        {
          compress: false,
          schema: {
            tags: ['repository'],
            params: Type.Object({ ...RepositoryParams.properties, '*': Type.String() }),
            querystring: Type.Object({ ref }),
            response: FILE_ANSWER,
          },
        },
        async (request, reply) => {
          const { repository } = await onRepository(services, request, 'read')
          const path = request.params['*']
          const found = request.query.ref
            ? undefined
            : await commitAndPath(gitDirOf(services, repository.id), path)
          const file = found ?? { commit: await commitFor(services, repository, request.query.ref), path }
          return sendFile(services, request, reply, { repository, ...file })
        },
      )
    }
  }
}

const KINDS = ['branch', 'tag', 'commit'] as const

/** The address in `download_url`, outside the API. */
export function rawPageRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/:owner/:repo/raw/:kind/*',
      {
        compress: false,
        config: { scope: 'repository' },
        schema: {
          tags: ['repository'],
          params: Type.Object({ ...RepositoryParams.properties, kind: Type.String(), '*': Type.String() }),
          response: FILE_ANSWER,
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const kind = KINDS.find((known) => known === request.params.kind)
        const found =
          kind && (await commitAndPath(gitDirOf(services, repository.id), request.params['*'], kind))
        if (found === undefined) throw new Refused(refuse.notFound('there is no such branch, tag or commit'))
        return sendFile(services, request, reply, { repository, ...found })
      },
    )
  }
}
