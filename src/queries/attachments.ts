/** Attachments of comments: their descriptions, and their contents for readers of the repository. */
import { once } from 'node:events'
import { ReadStream } from 'node:fs'
import { send } from '@fastify/send'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import contentDisposition from 'content-disposition'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { Type } from 'typebox'
import { servedAs, sniff } from '../attachments/file-kind.ts'
import { isUuid } from '../attachments/files.ts'
import { isMissing } from '../disk.ts'
import { errorAnswer } from '../http/error-answers.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { Refused, refuse } from '../refusal.ts'
import { accessTo, atLeast } from '../rights/access.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import {
  AttachmentParams,
  AttachmentWire,
  attachmentOf,
  attachmentWire,
  noSuchFile,
} from '../wire/attachments.ts'
import { CommentParams, commentFor } from '../wire/comments.ts'
import { listSchema, rowsOrPage } from './paged-list.ts'

const MAX_KINDS = 10_000

export function attachmentQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.get(
      '/repos/:owner/:repo/issues/comments/:id/assets',
      { config, schema: { tags, params: CommentParams, ...listSchema(AttachmentWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const comment = await commentFor(services, repository.id, request.params.id)
        return rowsOrPage(services, request, reply, comment.attachments).map((file) =>
          attachmentWire(file, services.publicUrl()),
        )
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/comments/:id/assets/:attachment_id',
      { config, schema: { tags, params: AttachmentParams, response: { 200: AttachmentWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const comment = await commentFor(services, repository.id, request.params.id)
        return attachmentWire(
          attachmentOf(services, comment, request.params.attachment_id),
          services.publicUrl(),
        )
      },
    )
  }
}

/** The media type is that of the file. */
const FILE = { '*/*': { schema: Type.String({ format: 'binary' }) } }

/** `GET /attachments/{uuid}`: the address in `browser_download_url`, outside the API. */
export function attachmentDownloadRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { attachments, views, log } = services
  /** By uuid. The kind can be kept, because the first bytes of a file never change. */
  const kinds = new LRUCache<string, { sniffed: string | undefined }>({ max: MAX_KINDS })

  async function kindOf(uuid: string): Promise<string | undefined> {
    const known = kinds.get(uuid)
    if (known !== undefined) return known.sniffed
    const head = await attachments.head(uuid)
    if (head === undefined) throw lost(uuid)
    const sniffed = await sniff(head)
    kinds.set(uuid, { sniffed })
    return sniffed
  }

  /** The refusal for a file that is not on disk: it may just have been deleted. */
  function lost(uuid: string): Refused {
    log.warn({ uuid }, 'the file of an attachment is missing')
    return noSuchFile(services)
  }

  async function readable(requester: AccountDocument | null, uuid: string) {
    const [comment] = isUuid(uuid) ? await views.comments.find({ attachmentUuids: uuid }, { limit: 1 }) : []
    const file = comment?.attachments.find((one) => one.uuid === uuid)
    const repository = comment && (await views.repositories.get(`${comment.repoId}`))
    const access = repository === undefined ? 'none' : accessTo(repository, requester)
    if (file === undefined || !atLeast(access, 'read')) throw noSuchFile(services)
    if (file.erased !== undefined) throw new Refused(refuse.notFound(`the file was ${file.erased}`))
    return file
  }

  async function download(request: FastifyRequest, uuid: string, reply: FastifyReply) {
    const { name } = await readable(request.requester, uuid)
    const { type, disposition } = servedAs(name, await kindOf(uuid))
    const { statusCode, headers, stream } = await send(request.raw, `/${attachments.pathOf(uuid)}`, {
      root: attachments.directory,
      index: false,
      cacheControl: false,
      contentType: false,
    })
    if (statusCode === 404) throw lost(uuid)
    if (statusCode === 412)
      throw new Refused(
        refuse.preconditionFailed('the file does not match the If-Match or If-Unmodified-Since header'),
      )
    if (statusCode === 416) {
      reply.header('Content-Range', headers['Content-Range'])
      throw Object.assign(new Error('the file does not have the requested range'), { statusCode })
    }
    if (statusCode >= 400) throw new Error(`sending ${uuid} failed with ${statusCode}`)
    if (stream instanceof ReadStream) {
      await once(stream, 'open').catch((error: unknown) => {
        throw isMissing(error) ? lost(uuid) : error
      })
    }
    return reply
      .code(statusCode)
      .header('Content-Type', type)
      .header('Content-Disposition', contentDisposition(name, { type: disposition }))
      .headers(headers)
      .header('Content-Security-Policy', "default-src 'none'; sandbox")
      .header('Cache-Control', 'private')
      .send(stream)
  }

  return async (app) => {
    app.get(
      '/attachments/:uuid',
      {
        config: { scope: 'issue' },
        schema: {
          tags: ['issue'],
          params: Type.Object({ uuid: Type.String() }),
          response: {
            200: { description: 'The file', content: FILE },
            206: { description: 'The part of it that Range names', content: FILE },
            304: Type.Null({ description: 'The client has it: see If-None-Match and If-Modified-Since' }),
            416: errorAnswer(416),
          },
          refusals: ['preconditionFailed'],
        },
      },
      (request, reply) => download(request, request.params.uuid, reply),
    )
  }
}
