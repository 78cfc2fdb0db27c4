/** The files that a pull request changes: `GET /repos/{owner}/{repo}/pulls/{index}/files`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { changedFiles, isWhitespace } from '../git/changed-files.ts'
import { PageQuery, pageOf, sendCommitPaging } from '../http/paging.ts'
import type { Services } from '../services.ts'
import { ChangedFileWire, changedFileWire } from '../wire/changed-files.ts'
import { PullParams } from '../wire/pulls.ts'
import { askGit, pullInGit } from './pull-git.ts'

export function pullFilesRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { maxDiffLines, maxDiffFiles, maxDiffLineCharacters } = services.config
  const bounds = { maxLines: maxDiffLines, maxFiles: maxDiffFiles, maxLineCharacters: maxDiffLineCharacters }

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/files',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          querystring: Type.Object({
            'skip-to': Type.Optional(Type.String({ description: 'the first file of the list' })),
            whitespace: Type.Optional(
              Type.String({ description: 'ignore-all, ignore-change, ignore-eol or show-all (default)' }),
            ),
            ...PageQuery,
          }),
          response: { 200: Type.Array(ChangedFileWire) },
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request)
        const { query } = request
        const page = pageOf(query, services.config)
        const whitespace = isWhitespace(query.whitespace) ? query.whitespace : 'show-all'
        const skipTo = query['skip-to'] ?? ''
        const head = pull.head.sha
        const files = await askGit(request, () =>
          changedFiles(dir, pull.mergeBase, head, { whitespace, skipTo, bounds }),
        )
        const publicUrl = services.publicUrl()
        sendCommitPaging(request, reply, publicUrl, page, files.length)
        return files
          .slice(page.skip, page.skip + page.limit)
          .map((file) => changedFileWire(file, repository, head, publicUrl))
      },
    )
  }
}
