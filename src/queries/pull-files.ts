/** The files that a pull request changes: `GET /repos/{owner}/{repo}/pulls/{index}/files`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { changedFiles, isWhitespace } from '../git/changed-files.ts'
import type { ChangedFile } from '../git/diff-reader.ts'
import { PageQuery, pageOf, sendCommitPaging } from '../http/paging.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'
import { askGit, pullInGit } from './pull-git.ts'
import { PullParams } from './pulls.ts'

export const ChangedFileWire = Type.Object({
  filename: Type.String(),
  previous_filename: Type.Optional(Type.String()),
  status: Type.String(),
  additions: Type.Integer(),
  deletions: Type.Integer(),
  changes: Type.Integer(),
  html_url: Type.String(),
  contents_url: Type.String(),
  raw_url: Type.String(),
})

/** Gitea's words: a file without changed lines, as a binary one, is `unchanged`. */
function statusOf({ change, additions, deletions }: ChangedFile): string {
  if (change !== 'modified') return change
  return additions + deletions === 0 ? 'unchanged' : 'changed'
}

function changedFileWire(
  file: ChangedFile,
  repository: RepositoryDocument,
  head: string,
  publicUrl: string,
): Static<typeof ChangedFileWire> {
  const { name, previousName, additions, deletions } = file
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const path = name.split('/').map(encodeURIComponent).join('/')
  return {
    filename: name,
    ...(previousName !== undefined && { previous_filename: previousName }),
    status: statusOf(file),
    additions,
    deletions,
    changes: additions + deletions,
    html_url: `${publicUrl}/${fullName}/src/commit/${head}/${path}`,
    contents_url: `${publicUrl}/api/v1/repos/${fullName}/contents/${path}?ref=${head}`,
    raw_url: `${publicUrl}/${fullName}/raw/commit/${head}/${path}`,
  }
}

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
            'skip-to': Type.Optional(Type.String({ description: 'file that the list begins with' })),
            whitespace: Type.Optional(
              Type.String({ description: 'ignore-all, ignore-change, ignore-eol or show-all (default)' }),
            ),
            ...PageQuery,
          }),
          response: { 200: Type.Array(ChangedFileWire) },
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request, request.params)
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
