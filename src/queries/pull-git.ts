/**
 * The parts of a pull request that only git knows: `/repos/{owner}/{repo}/pulls/{index}/commits`, `…/files`, and the diff
 * or patch as text at `…/pulls/{index}.diff` and `….patch`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { createAnswerCache } from '../git/answer-cache.ts'
import { changedFiles, isWhitespace } from '../git/changed-files.ts'
import { commitChanges, commitRange } from '../git/commit-range.ts'
import { type CommitFacts, commitFacts } from '../git/commits.ts'
import { diffText } from '../git/diff.ts'
import { GitFailed } from '../git/errors.ts'
import type { GitLimits, Question } from '../git/limits.ts'
import { rememberingFailure } from '../git/remembered-failures.ts'
import { unsignedCommits } from '../git/signatures.ts'
import { clientGone } from '../http/client-gone.ts'
import { matchesTag } from '../http/entity-tags.ts'
import { flagOf, OptionalText } from '../http/optional-text.ts'
import { pageOf, sendCommitPaging } from '../http/paging.ts'
import { Refused, refuse } from '../refusal.ts'
import { clientOf } from '../rights/requester.ts'
import { gitDirOf, type Services } from '../services.ts'
import { ChangedFileWire, changedFileWire } from '../wire/changed-files.ts'
import { type CommitContext, CommitWire, commitWire } from '../wire/commits.ts'
import { onPull, PullParams } from '../wire/pulls.ts'
import { usersByEmail, userWire } from '../wire/users.ts'
import { filteredListSchema } from './paged-list.ts'

/**
 * The pull request in the path, if the requester may read it. `dir`: the git directory of the base repository, which also
 * has commits of forks and of deleted branches. @throws Refused (not found)
 */
async function pullInGit(services: Services, request: Parameters<typeof onPull>[1]) {
  const { repository, pull } = await onPull(services, request, 'read')
  return { repository, pull, dir: gitDirOf(services, pull.repoId) }
}

/** Asks git about commits of a pull request. git fails only when they are gone. @throws Refused (not found) */
async function askGit<T>(request: FastifyRequest, question: () => Promise<T>): Promise<T> {
  try {
    return await question()
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    request.log.warn({ err: error }, 'the commits of a pull request are gone')
    throw new Refused(refuse.notFound('the commits of this pull request no longer exist'))
  }
}

/** Sends the differences between two commits as text. @throws Refused (not found) when the commits are gone */
export async function sendDiff(
  request: FastifyRequest,
  reply: FastifyReply,
  ...[limits, dir, from, to, options]: [GitLimits, ...Parameters<typeof diffText>]
): Promise<FastifyReply> {
  const signal = clientGone(reply)
  const share = limits.diffs.shareOf(clientOf(request))
  const text = await askGit(request, () => diffText(dir, from, to, { ...options, signal, share }))
  return reply.type('text/plain; charset=utf-8').send(text)
}

/** By repository, keys and commits: which commits are well signed. */
const verdicts = createAnswerCache<ReadonlySet<string>>(10_000, ({ size }) => 1 + size)

/** Ids of the commits with a good signature of the server or of an allowed signer. */
async function verifiedOf(
  { config }: Services,
  dir: string,
  commits: readonly CommitFacts[],
  { queue, signal }: Question,
) {
  const { signingKey, allowedSigners } = config
  const signed = commits.filter((commit) => commit.signed !== undefined).map(({ sha }) => sha)
  if (signed.length === 0 || (signingKey ?? allowedSigners) === undefined) return new Set<string>()
  const verify = async (unwanted: AbortSignal) => {
    const options = { queue, signal: unwanted }
    const unsigned = new Set(await unsignedCommits(dir, signed, { signingKey, allowedSigners }, options))
    return new Set(signed.filter((sha) => !unsigned.has(sha)))
  }
  return verdicts(`${dir}\0${signingKey}\0${allowedSigners}\0${signed.join()}`, verify, signal)
}

/** Users by the e-mail addresses of authors and committers. */
async function peopleOf(
  services: Services,
  commits: readonly CommitFacts[],
): Promise<CommitContext['people']> {
  const emails = commits.flatMap(({ author, committer }) => [author.email, committer.email])
  const found = await usersByEmail(services, emails)
  return new Map([...found].map(([email, account]) => [email, userWire(account, services.publicUrl())]))
}

export function pullGitRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { maxDiffLines, maxDiffFiles, maxDiffLineCharacters } = services.config
  const bounds = { maxLines: maxDiffLines, maxFiles: maxDiffFiles, maxLineCharacters: maxDiffLineCharacters }

  const { diffs } = services.gitLimits

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/commits',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          ...filteredListSchema(CommitWire, {
            verification: OptionalText('whether to verify the signature of each commit (default true)'),
            files: OptionalText('whether to list the files of each commit (default true)'),
          }),
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request)
        const page = pageOf(request.query, services.config)
        const wanted = flagOf(request.query.verification, true)
        const read = async (question: Question) => {
          const { queue, signal } = question
          const start = pull.merged === null ? pull.base.sha : pull.mergeBase
          const range = await commitRange(dir, start, pull.head.sha, { queue, signal })
          const ids = range.page(page.skip, page.limit)
          const facts = await commitFacts(dir, ids, { queue, signal })
          const commits = ids.flatMap((id) => facts.get(id) ?? [])
          const changes = await commitChanges(dir, commits, services.config.maxDiffFiles, question)
          const verified = wanted ? await verifiedOf(services, dir, commits, question) : null
          return { total: range.total, commits, changes, verified }
        }
        const work = [dir, pull.base.sha, pull.head.sha, 'commits'].join('\0')
        const { total, commits, changes, verified } = await askGit(request, () =>
          rememberingFailure(work, () => diffs.ask(clientOf(request), clientGone(reply), read)),
        )
        const people = await peopleOf(services, commits)
        const publicUrl = services.publicUrl()
        sendCommitPaging(request, reply, publicUrl, page, total)
        const files = flagOf(request.query.files, true)
        const context = { repository, publicUrl, people, changes, verified, files }
        return commits.map((commit) => commitWire(commit, context))
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/files',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          ...filteredListSchema(ChangedFileWire, {
            'skip-to': OptionalText('the first file of the list'),
            whitespace: OptionalText('ignore-all, ignore-change, ignore-eol or show-all (default)'),
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
        const files = await askGit(request, () =>
          changedFiles(dir, pull.mergeBase, head, {
            ...{ whitespace, skipTo, bounds },
            ask: (signal, answer) => diffs.ask(clientOf(request), signal, answer),
            signal: clientGone(reply),
          }),
        )
        const publicUrl = services.publicUrl()
        sendCommitPaging(request, reply, publicUrl, page, files.length)
        return files
          .slice(page.skip, page.skip + page.limit)
          .map((file) => changedFileWire(file, repository, head, publicUrl))
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index.:diffType',
      {
        schema: {
          tags: ['repository'],
          params: Type.Object({ ...PullParams.properties, diffType: Type.String() }),
          querystring: Type.Object({
            binary: OptionalText('whether the diff contains binary files; a patch always contains them'),
          }),
          response: {
            200: { description: 'As git writes it', content: { 'text/plain': { schema: Type.String() } } },
            304: Type.Null({ description: 'The client has it: see If-None-Match' }),
          },
        },
      },
      async (request, reply) => {
        const { diffType: kind } = request.params
        if (kind !== 'diff' && kind !== 'patch')
          throw new Refused(refuse.notFound('the path must end with .diff or .patch'))
        const { pull, dir } = await pullInGit(services, request)
        const binary = flagOf(request.query.binary, false)
        const [from, to] = [pull.mergeBase, pull.head.sha]
        // A weak tag, because another version of git may write the same differences as another text.
        const tag = `W/"${from}-${to}.${kind}${binary ? '.binary' : ''}"`
        reply.headers({ ETag: tag, 'Cache-Control': 'private, no-cache' })
        if (matchesTag(request.headers['if-none-match'], tag)) return reply.code(304).send(null)
        try {
          return await sendDiff(request, reply, services.gitLimits, dir, from, to, { kind, binary })
        } catch (error) {
          reply.removeHeader('ETag')
          throw error
        }
      },
    )
  }
}
