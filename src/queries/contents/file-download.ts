/** Sends attached files, with headers that prevent them from running as pages of this server. */
import { once } from 'node:events'
import { ReadStream } from 'node:fs'
import { send } from '@fastify/send'
import contentDisposition from 'content-disposition'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { Type } from 'typebox'
import { noSuchFile } from '../../api/attachments/attachments.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { errorAnswer } from '../../http/answers/error-answers.ts'
import type { Services } from '../../services/services.ts'
import { servedAs, sniff } from '../../storage/attachments/file-kind.ts'
import { isMissing } from '../../storage/disk.ts'

const MAX_KINDS = 10_000

/** The media type is that of the file. */
const FILE = { '*/*': { schema: Type.String({ format: 'binary' }) } }

/** The answers of a route that sends a file. */
export const FILE_ANSWERS = {
  200: { description: 'The file', content: FILE },
  206: { description: 'The part of it that Range names', content: FILE },
  304: Type.Null({ description: 'The client has it: see If-None-Match and If-Modified-Since' }),
  416: errorAnswer(416),
}

/** Returns the function that sends a file to an authorized requester. */
export function fileDownload(services: Pick<Services, 'attachments' | 'views' | 'log'>) {
  const { attachments, log } = services
  /** By uuid. The kind is cached, because files never change. */
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

  /** Returns the refusal for a file that is missing on disk: it may just have been deleted. */
  function lost(uuid: string): Refused {
    log.warn({ uuid }, 'the file of an attachment is missing')
    return noSuchFile(services)
  }

  return async (
    request: FastifyRequest,
    reply: FastifyReply,
    { uuid, name }: { uuid: string; name: string },
  ) => {
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
}
