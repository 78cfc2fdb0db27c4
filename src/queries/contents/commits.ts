/** The commits of a repository: `/repos/{owner}/{repo}/commits` and `/repos/{owner}/{repo}/git/commits/{sha}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { CommitWire } from '../../api/contents/commits.ts'
import { type Caller, servedCommitOf } from '../../api/contents/reached-objects.ts'
import { PullRequestWire, pullFor, pullWire } from '../../api/pull-requests/pulls.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { CombinedStatusWire, CommitStatusWire, commitOf } from '../../api/statuses/statuses.ts'
import { exactTimeRange } from '../../api/time-range.ts'
import { clientOf } from '../../auth/requester.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import { type CommitSelection, commitList } from '../../git/commits/commit-list.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import type { DiffKind } from '../../git/diff/diff.ts'
import type { GitSlot } from '../../git/process/limits.ts'
import { rememberingFailure } from '../../git/process/remembered-failures.ts'
import { refNameProblem } from '../../git/refs/names.ts'
import { withoutSlashes } from '../../git/trees/tree-path.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { type Page, pageOf, sendCommitPaging } from '../../http/requests/paging.ts'
import { mergedCommitId } from '../../projections/models/pull-requests/merged-commits.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { filteredListSchema } from '../paged-list.ts'
import { STATUS_LIST, statusAnswers } from '../statuses/statuses.ts'
import {
  askGit,
  type CommitFlags,
  CommitFlagsQuery,
  commitFlags,
  commitWires,
  type FoundCommits,
  readCommits,
  sendUnchangingDiff,
} from './commit-answers.ts'

/** Maximum length of a path that git could check out. */
const MAX_PATH = 4096

/** Returns a path without slashes at its ends. @throws Refused (unprocessable) for an invalid path */
export function commitPathIn(text: string | undefined): string | undefined {
  const path = withoutSlashes(text ?? '')
  if (path === '') return undefined
  const isOutside = path.split('/').some((part) => part === '' || part === '.' || part === '..')
  if (isOutside || path.includes('\0') || path.length > MAX_PATH) {
    throw new Refused(refuse.unprocessable('path: is not the path of a file or a folder'))
  }
  return path
}

/** A request for one commit. */
type CommitRequest = FastifyRequest & {
  query: { stat?: string; verification?: string; files?: string }
}

/** Resolves a reference to a commit that a ref reaches. @throws Refused: unprocessable for an invalid name; not found */
export async function namedCommit(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  ref: string,
) {
  if (refNameProblem(`refs/heads/${ref}`) !== undefined) {
    throw new Refused(
      refuse.unprocessable('sha: is not the name of a branch or a tag, nor the id of a commit'),
    )
  }
  return await servedCommitOf(services, caller, repository, ref)
}

/** A page of the commits that a selection names, newest first. @throws Refused (not found) when they no longer exist */
export async function commitPage(
  services: Services,
  { request, reply }: Caller,
  repository: RepositoryDocument,
  selection: CommitSelection,
  { skip, limit }: Pick<Page, 'skip' | 'limit'>,
  flags: CommitFlags,
): Promise<{ total: number; found: FoundCommits }> {
  const dir = gitDirOf(services, repository.id)
  const read = async (slot: GitSlot) => {
    const list = await commitList(dir, selection, slot)
    const ids = list.page(skip, limit)
    return { total: list.total, found: await readCommits(services, dir, ids, flags, slot) }
  }
  // Without path and times, because a client could vary them for the same work.
  const work = [dir, selection.tip, selection.path === undefined ? 'list' : 'list of a path'].join('\0')
  return await askGit(request, selection.tip, () =>
    rememberingFailure(work, () =>
      services.gitLimits.diffs.ask(clientOf(request), disconnectSignal(reply), read),
    ),
  )
}

/** Reads one commit. @throws Refused (not found) when it no longer exists */
export async function oneCommit(
  services: Services,
  { request, reply }: Caller,
  repository: RepositoryDocument,
  sha: string,
  flags: CommitFlags,
): Promise<Static<typeof CommitWire>> {
  const dir = gitDirOf(services, repository.id)
  const found = await askGit(request, sha, () =>
    services.gitLimits.diffs.ask(clientOf(request), disconnectSignal(reply), (slot) =>
      readCommits(services, dir, [sha], flags, slot),
    ),
  )
  const [wire] = await commitWires(services, repository, reply, found, flags)
  if (wire === undefined) throw new Refused(refuse.notFound('commit not found'))
  return wire
}

export function commitQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services
  const statuses = statusAnswers(services)

  async function one(
    request: CommitRequest,
    reply: FastifyReply,
    repository: RepositoryDocument,
    ref: string,
  ) {
    const sha = await namedCommit(services, { request, reply }, repository, ref)
    return await oneCommit(services, { request, reply }, repository, sha, commitFlags(request.query))
  }

  /** Sends the changes of a commit against its first parent. */
  async function diffOf(
    request: FastifyRequest,
    reply: FastifyReply,
    repository: RepositoryDocument,
    { ref, kind }: { ref: string; kind: DiffKind },
  ) {
    const sha = await namedCommit(services, { request, reply }, repository, ref)
    const dir = gitDirOf(services, repository.id)
    const commit = (await commitFacts(dir, [sha])).get(sha)
    if (commit === undefined) throw new Refused(refuse.notFound('commit not found'))
    const between = { dir, from: commit.parents[0] ?? null, to: sha }
    return await sendUnchangingDiff(request, reply, services.gitLimits, between, { kind, binary: true })
  }

  /** Returns the pull request whose merge created the commit. */
  async function pullOf(
    request: FastifyRequest,
    reply: FastifyReply,
    repository: RepositoryDocument,
    ref: string,
  ) {
    const sha = await namedCommit(services, { request, reply }, repository, ref)
    const merged = await views.mergedCommits.get(mergedCommitId(repository.id, sha))
    if (merged === undefined) throw notFoundIn(views.mergedCommits, 'no merge has created this commit')
    const pull = await pullFor(services, repository.id, `${merged.index}`)
    return await pullWire(services, repository, pull, request.requester)
  }

  return async (app) => {
    const tags = ['repository']
    const text = { 'text/plain': { schema: Type.String() } }

    app.get(
      '/repos/:owner/:repo/commits',
      {
        schema: {
          tags,
          params: RepositoryParams,
          ...filteredListSchema(CommitWire, {
            sha: OptionalText('Branch, tag or commit to begin with; default: the default branch'),
            path: OptionalText('Only commits that change this file or folder'),
            since: OptionalText('Only commits of this time (RFC 3339) or later'),
            until: OptionalText('Only commits of this time (RFC 3339) or earlier'),
            not: OptionalText('Branch, tag or commit whose commits are left out'),
            ...CommitFlagsQuery,
          }),
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { query } = request
        if (repository.empty)
          throw new Refused(coded('repository_empty', refuse.conflict('Git Repository is empty.')))
        const page = pageOf(query, services.config)
        const flags = commitFlags(query)
        const path = commitPathIn(query.path)
        const { since, before: until } = exactTimeRange({
          since: query.since ?? '',
          before: query.until ?? '',
        })
        const commitAt = (ref: string) => servedCommitOf(services, { request, reply }, repository, ref)
        const tip = await commitAt(query.sha || repository.defaultBranch)
        const not = query.not ? await commitAt(query.not) : undefined
        const selection = { tip, not, path, since, until }
        const { total, found } = await commitPage(
          services,
          { request, reply },
          repository,
          selection,
          page,
          flags,
        )
        if (path !== undefined && total === 0) throw new Refused(refuse.notFound('no commit has this path'))
        sendCommitPaging(request, reply, services.publicUrl(), page, total)
        reply.header('X-Total', total)
        return await commitWires(services, repository, reply, found, flags)
      },
    )

    app.get(
      '/repos/:owner/:repo/git/commits/:sha',
      {
        schema: {
          tags,
          description: 'With `.diff` or `.patch` at the end: the changes of the commit, as text',
          params: Type.Object({ ...RepositoryParams.properties, sha: Type.String() }),
          querystring: Type.Object(CommitFlagsQuery),
          response: {
            200: {
              description: 'The commit',
              content: { 'application/json': { schema: CommitWire }, ...text },
            },
            304: Type.Null({ description: 'The client has the text: see If-None-Match' }),
          },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { sha } = request.params
        const wanted = requestedText(sha)
        if (wanted !== undefined) return await diffOf(request, reply, repository, wanted)
        return reply.send(await one(request, reply, repository, sha))
      },
    )

    app.get(
      '/repos/:owner/:repo/commits/*',
      {
        schema: {
          tags,
          description:
            '`{ref}`: the commit; `{ref}.diff` and `{ref}.patch`: its changes, as text; `{ref}/status`: its ' +
            'combined state; `{ref}/statuses`: all of its statuses; `{ref}/pull`: the pull request whose merge created ' +
            'it. A ref may contain slashes',
          params: Type.Object({ ...RepositoryParams.properties, '*': Type.String() }),
          querystring: Type.Object({ ...STATUS_LIST.querystring.properties, ...CommitFlagsQuery }),
          response: {
            200: {
              description: 'The commit, its statuses, its pull request or its diff',
              content: {
                'application/json': {
                  schema: Type.Union([
                    Type.Array(CommitStatusWire),
                    CombinedStatusWire,
                    CommitWire,
                    PullRequestWire,
                  ]),
                },
                ...text,
              },
            },
            304: Type.Null({ description: 'The client has the text: see If-None-Match' }),
          },
        },
      },
      async (request, reply) => {
        const found = await onRepository(services, request, 'read')
        const { repository } = found
        const target = request.params['*']
        const [, ref, part] = /^(.+)\/(status|statuses|pull)$/s.exec(target) ?? []
        if (ref === undefined) {
          const wanted = requestedText(target)
          if (wanted !== undefined) return await diffOf(request, reply, repository, wanted)
          return reply.send(await one(request, reply, repository, target))
        }
        if (part === 'pull') return reply.send(await pullOf(request, reply, repository, ref))
        const commit = { ...found, sha: await commitOf(services, repository, ref) }
        const answer = part === 'status' ? statuses.combined : statuses.list
        return reply.send(await answer(request, reply, commit))
      },
    )
  }
}

/** Returns the commit and the format of its changes, for a name that ends in `.diff` or `.patch`. */
function requestedText(name: string): { ref: string; kind: DiffKind } | undefined {
  const [, ref, kind] = /^(.+)\.(diff|patch)$/s.exec(name) ?? []
  if (ref === undefined) return undefined
  return { ref, kind: kind === 'patch' ? 'patch' : 'diff' }
}
