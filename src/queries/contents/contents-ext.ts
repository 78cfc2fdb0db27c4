/** Selected file details: `GET …/contents-ext/{path}?includes=`, and many files by `…/file-contents`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { type Contents, ContentsWire } from '../../api/contents/contents.ts'
import {
  commitFor,
  contentsIfThere,
  MAX_CONTENT_BYTES,
  readingOf,
  type Wanted,
} from '../../api/contents/contents-at.ts'
import { Nullable } from '../../api/nullable.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { withLongList } from '../../http/answers/json-answer.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { checkOf } from '../../storage/checked-json.ts'
import { type PageRequest, pagedRows } from '../paged-list.ts'
import { ContentsParams, ContentsQuery, contentsOf } from './contents.ts'

/** The values of `includes`, with the details that they select. */
const INCLUDES: ReadonlyMap<string, keyof Wanted> = new Map([
  ['file_content', 'content'],
  ['lfs_metadata', 'lfs'],
  ['commit_metadata', 'lastCommit'],
  ['commit_message', 'message'],
])

/** @throws Refused (invalid) for an unknown word */
function wantedIn(includes: string | undefined): Wanted {
  const wanted: Wanted = { content: false, lastCommit: false }
  for (const word of (includes ?? '').split(',')) {
    const key = INCLUDES.get(word)
    if (word !== '' && key === undefined) throw new Refused(refuse.invalid(`includes: there is no ${word}`))
    if (key !== undefined) wanted[key] = true
  }
  // The message needs the commit.
  return { ...wanted, lastCommit: wanted.lastCommit || wanted.message === true }
}

/** Maximum number of files, including repetitions: each costs a look-up. */
const MAX_FILES = 1000
const FilesBody = Type.Object(
  { files: Type.Array(Type.String(), { maxItems: MAX_FILES }) },
  { title: 'GetFilesOptions' },
)
const isFilesBody = checkOf(FilesBody)

/** Returns the paths in the query's `body`. @throws Refused (invalid, unprocessable) */
function filesIn(text: string | undefined): string[] {
  if (text === undefined || text === '') return []
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw new Refused(refuse.invalid('body: is not JSON'))
  }
  if (isFilesBody(body)) return body.files
  const reason = `body: must be {"files": [PATH, …]} with at most ${MAX_FILES} paths`
  throw new Refused(refuse.unprocessable(reason, [reason]))
}

export function contentsExtRoutes(services: Services): FastifyPluginAsyncTypebox {
  /** Returns a page of these files; null for missing ones. Their contents share one limit. */
  async function filesAt(
    request: PageRequest & { query: { ref?: string } },
    reply: FastifyReply,
    repository: RepositoryDocument,
    paths: readonly string[],
  ): Promise<(Contents | null)[]> {
    const page = pagedRows(services, request, reply, paths)
    if (page.length === 0) return []
    const commit = await commitFor(services, { request, reply }, repository, request.query.ref)
    const place = { repository, publicUrl: services.publicUrl(), commit }
    const reading = readingOf(services, request, reply)
    const files: (Contents | null)[] = []
    let bytes = 0
    for (const path of page) {
      const wanted = { content: bytes < MAX_CONTENT_BYTES, lastCommit: false }
      const file = await contentsIfThere(reading, place, path, wanted)
      if (file?.content) bytes += file.size
      files.push(file)
    }
    return files
  }

  return async (app) => {
    const tags = ['repository']

    const extended = {
      tags,
      querystring: Type.Object({
        ...ContentsQuery.properties,
        includes: OptionalText(`Wanted details, separated by commas: ${[...INCLUDES.keys()].join(', ')}`),
      }),
      response: {
        200: Type.Object({
          file_contents: Type.Optional(ContentsWire),
          dir_contents: Type.Optional(Type.Array(ContentsWire)),
        }),
      },
    }

    const named = (found: Awaited<ReturnType<typeof contentsOf>>) =>
      Array.isArray(found) ? withLongList({ dir_contents: found }, 'dir_contents') : { file_contents: found }

    app.get(
      '/repos/:owner/:repo/contents-ext',
      { schema: { ...extended, params: RepositoryParams } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const wanted = wantedIn(request.query.includes)
        return named(await contentsOf(services, request, reply, repository, '', wanted))
      },
    )

    app.get(
      '/repos/:owner/:repo/contents-ext/*',
      { schema: { ...extended, params: ContentsParams } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const wanted = wantedIn(request.query.includes)
        const path = request.params['*'] === '.' ? '' : request.params['*']
        return named(await contentsOf(services, request, reply, repository, path, wanted))
      },
    )

    const response = { 200: Type.Array(Nullable(ContentsWire)) }

    app.get(
      '/repos/:owner/:repo/file-contents',
      {
        schema: {
          tags,
          params: RepositoryParams,
          querystring: Type.Object({
            ...ContentsQuery.properties,
            body: OptionalText('Body of the POST request, as JSON'),
          }),
          response,
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return filesAt(request, reply, repository, filesIn(request.query.body))
      },
    )

    app.post(
      '/repos/:owner/:repo/file-contents',
      {
        // A POST that only reads.
        config: { scope: 'repository', scopeLevel: 'read' },
        schema: { tags, params: RepositoryParams, querystring: ContentsQuery, body: FilesBody, response },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return filesAt(request, reply, repository, request.body.files)
      },
    )
  }
}
