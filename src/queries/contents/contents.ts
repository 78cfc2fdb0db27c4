/** Files and directories of a repository: `GET /repos/{owner}/{repo}/contents` and below. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { type Contents, ContentsWire } from '../../api/contents/contents.ts'
import {
  commitFor,
  contentsIn,
  entriesOf,
  entryFor,
  readingOf,
  type Wanted,
} from '../../api/contents/contents-at.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { kindOf } from '../../git/trees/tree-entries.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { PageQuery, pageOf, sendOnePage, sendPaging, wantedPage } from '../../http/requests/paging.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import type { PageRequest } from '../paged-list.ts'

/** Maximum number of entries of a directory without a requested page: the first ones. */
const MAX_ENTRIES = 1000

export const ContentsParams = Type.Object({ ...RepositoryParams.properties, '*': Type.String() })

export const ContentsQuery = Type.Object({
  ref: OptionalText('Branch, tag or commit; default: the default branch'),
  ...PageQuery,
})

/**
 * Returns a file, link or submodule, or the entries of a directory with `X-Total-Count` and `Link`.
 * @throws Refused (not found) for a missing commit or path
 */
export async function contentsOf(
  services: Services,
  request: PageRequest & { query: { ref?: string } },
  reply: FastifyReply,
  repository: RepositoryDocument,
  path: string,
  wanted: Wanted,
): Promise<Contents | Contents[]> {
  const { ref } = request.query
  const publicUrl = services.publicUrl()
  if (repository.empty && !ref && path === '') {
    sendOnePage(request, reply, publicUrl, 0)
    return []
  }
  const place = {
    repository,
    publicUrl,
    commit: await commitFor(services, { request, reply }, repository, ref),
  }
  const { entry, parts } = await entryFor(services, place, path)
  const reading = readingOf(services, request, reply)
  if (kindOf(entry) !== 'dir') {
    const [file] = await contentsIn(reading, place, parts.slice(0, -1), [entry], wanted)
    if (file !== undefined) return file
  }
  const entries = await entriesOf(services, place, entry)
  const all = { page: 1, limit: MAX_ENTRIES, skip: 0 }
  const requested = wantedPage(request.query, services.config)
  const page = requested === undefined ? all : pageOf(request.query, services.config)
  if (requested === undefined && entries.size <= MAX_ENTRIES) {
    sendOnePage(request, reply, publicUrl, entries.size)
  } else sendPaging(request, reply, publicUrl, page, entries.size)
  const shown = entries.page(page.skip, page.limit)
  return contentsIn(reading, place, parts, shown, { ...wanted, content: false })
}

export function contentsQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['repository']
    const wanted = { content: true, lastCommit: true }

    app.get(
      '/repos/:owner/:repo/contents',
      {
        schema: {
          tags,
          params: RepositoryParams,
          querystring: ContentsQuery,
          response: { 200: Type.Array(ContentsWire) },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const found = await contentsOf(services, request, reply, repository, '', wanted)
        return Array.isArray(found) ? found : [found]
      },
    )

    app.get(
      '/repos/:owner/:repo/contents/*',
      {
        schema: {
          tags,
          params: ContentsParams,
          querystring: ContentsQuery,
          response: { 200: Type.Union([ContentsWire, Type.Array(ContentsWire)]) },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return contentsOf(services, request, reply, repository, request.params['*'], wanted)
      },
    )
  }
}
