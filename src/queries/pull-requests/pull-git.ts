/**
 * Pull request data from git: `/repos/{owner}/{repo}/pulls/{index}/commits`, `…/files`, and the diff or patch as text
 * at `…/pulls/{index}.diff` and `….patch`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ChangedFileWire, changedFileWire } from '../../api/contents/changed-files.ts'
import { CommitWire } from '../../api/contents/commits.ts'
import { requireCommits } from '../../api/contents/refs-in-time.ts'
import { onPull, PullParams } from '../../api/pull-requests/pulls.ts'
import { clientOf } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { commitRange } from '../../git/commits/commit-range.ts'
import { changedFiles, isWhitespace } from '../../git/diff/changed-files.ts'
import type { GitSlot } from '../../git/process/limits.ts'
import { rememberingFailure } from '../../git/process/remembered-failures.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { pageOf, sendCommitPaging, sendTruncated } from '../../http/requests/paging.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import {
  askGit,
  CommitFlagsQuery,
  commitFlags,
  commitWires,
  readCommits,
  sendUnchangingDiff,
} from '../contents/commit-answers.ts'
import { filteredListSchema } from '../paged-list.ts'

/**
 * Returns the pull request in the path. `dir`: the base repository, which also has commits of forks and of deleted
 * branches.
 * @throws Refused (not found)
 */
async function pullInGit(services: Services, request: Parameters<typeof onPull>[1]) {
  const { repository, pull } = await onPull(services, request, 'read')
  return { repository, pull, dir: gitDirOf(services, pull.repoId) }
}

export function pullGitRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { maxDiffLines, maxDiffFiles, maxDiffLineCharacters } = services.config
  const bounds = {
    maxLines: maxDiffLines,
    // One file more than the limit, to detect truncation.
    maxFiles: maxDiffFiles + 1,
    maxLineCharacters: maxDiffLineCharacters,
  }

  const { diffs } = services.gitLimits

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/commits',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          ...filteredListSchema(CommitWire, {
            verification: CommitFlagsQuery.verification,
            files: CommitFlagsQuery.files,
          }),
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request)
        const page = pageOf(request.query, services.config)
        const flags = commitFlags(request.query)
        const start = pull.merged === null ? pull.base.sha : pull.mergeBase
        await requireCommits(services, pull.repoId, [start, pull.head.sha])
        const read = async (slot: GitSlot) => {
          const { queue, signal } = slot
          const range = await commitRange(dir, start, pull.head.sha, { queue, signal })
          const ids = range.page(page.skip, page.limit)
          return { total: range.total, found: await readCommits(services, dir, ids, flags, slot) }
        }
        const work = [dir, pull.base.sha, pull.head.sha, 'commits'].join('\0')
        const { total, found } = await askGit(request, pull.head.sha, () =>
          rememberingFailure(work, () => diffs.ask(clientOf(request), disconnectSignal(reply), read)),
        )
        sendCommitPaging(request, reply, services.publicUrl(), page, total)
        return await commitWires(services, repository, reply, found, flags)
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/files',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          ...filteredListSchema(ChangedFileWire, {
            'skip-to': OptionalText('Path of the first file of the list'),
            whitespace: OptionalText(
              'Whitespace in diffs: ignore-all, ignore-change, ignore-eol or show-all (default)',
            ),
          }),
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request)
        const { query } = request
        const page = pageOf(query, services.config)
        const whitespace = isWhitespace(query.whitespace) ? query.whitespace : 'show-all'
        const skipTo = query['skip-to'] ?? ''
        const head = pull.head.sha
        await requireCommits(services, pull.repoId, [pull.mergeBase, head])
        const found = await askGit(request, head, () =>
          changedFiles(dir, pull.mergeBase, head, {
            ...{ whitespace, skipTo, bounds },
            ask: (signal, answer) => diffs.ask(clientOf(request), signal, answer),
            signal: disconnectSignal(reply),
          }),
        )
        const publicUrl = services.publicUrl()
        const files = found.slice(0, maxDiffFiles)
        sendCommitPaging(request, reply, publicUrl, page, files.length)
        if (found.length > files.length) {
          sendTruncated(reply)
          reply.header('X-HasMore', 'true')
        }
        return files
          .slice(page.skip, page.skip + page.limit)
          .map((file) => changedFileWire(file, repository, head, publicUrl))
      },
    )
  }
}

const diffOptions = {
  config: { scope: 'repository' },
  schema: {
    tags: ['repository'],
    params: Type.Object({ ...PullParams.properties, diffType: Type.String() }),
    querystring: Type.Object({
      binary: OptionalText('Whether the diff contains binary files; a patch always does'),
    }),
    response: {
      200: { description: 'The text of git', content: { 'text/plain': { schema: Type.String() } } },
      304: Type.Null({ description: 'The client has it: see If-None-Match' }),
    },
  },
} as const

/** The routes of the diff and the patch below a prefix. */
function diffRoutes(services: Services, prefix: string): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(`${prefix}/:owner/:repo/pulls/:index.:diffType`, diffOptions, async (request, reply) => {
      const { diffType: kind } = request.params
      if (kind !== 'diff' && kind !== 'patch')
        throw new Refused(refuse.notFound('the path must end with .diff or .patch'))
      const { pull, dir } = await pullInGit(services, request)
      await requireCommits(services, pull.repoId, [pull.mergeBase, pull.head.sha])
      const binary = flagOf(request.query.binary, false)
      const between = { dir, from: pull.mergeBase, to: pull.head.sha }
      return await sendUnchangingDiff(request, reply, services.gitLimits, between, { kind, binary })
    })
  }
}

export const pullDiffRoutes = (services: Services) => diffRoutes(services, '/repos')

/** The addresses in `diff_url` and `patch_url`, outside the API. */
export const pullDiffPageRoutes = (services: Services) => diffRoutes(services, '')
