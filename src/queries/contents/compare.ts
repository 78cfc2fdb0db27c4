/** Compares two commits, also of two repositories: `GET /repos/{owner}/{repo}/compare/{base}...{head}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { onRepository, repositoryFor } from '../../access/repository-access.ts'
import { CommitWire } from '../../api/contents/commits.ts'
import { type Caller, servedCommitOf } from '../../api/contents/reached-objects.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { clientOf } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { commitRange } from '../../git/commits/commit-range.ts'
import { commitsWithin } from '../../git/commits/commits.ts'
import type { GitSlot } from '../../git/process/limits.ts'
import { rememberingFailure } from '../../git/process/remembered-failures.ts'
import { mergeBaseAcross } from '../../git/repository/fork-history.ts'
import { withLongList } from '../../http/answers/json-answer.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { PageQuery, pageOf, sendCommitPaging, sendTruncated, wantedPage } from '../../http/requests/paging.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { currentMoment, runAt } from '../../services/moment.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { askGit, CommitFlagsQuery, commitFlags, commitWires, readCommits } from './commit-answers.ts'

/** Maximum number of commits without a requested page: the newest ones. */
const MAX_COMMITS = 250
/** Maximum size of the commits of an answer, in bytes. */
const MAX_BYTES = 16 * 1024 * 1024

/** Returns the two sides in a path: `base...head`, `base..head`, or a head alone. */
function sidesOf(path: string, { defaultBranch }: RepositoryDocument): [base: string, head: string] {
  for (const between of ['...', '..']) {
    const at = path.indexOf(between)
    if (at !== -1)
      return [path.slice(0, at) || defaultBranch, path.slice(at + between.length) || defaultBranch]
  }
  return [defaultBranch, path]
}

/**
 * Resolves a head to its repository and reference: `branch`, `owner:branch` (the owner's fork) or `owner/repo:branch`.
 * @throws Refused (not found), also when the requester may not read it
 */
async function headOf(
  services: Services,
  requester: AccountDocument | null,
  base: RepositoryDocument,
  head: string,
): Promise<{ repository: RepositoryDocument; ref: string }> {
  const { repositories } = services.views
  const [, owner, name, ref] = /^([^:/]+)(?:\/([^:/]+))?:(.*)$/s.exec(head) ?? []
  if (owner === undefined || ref === undefined) return { repository: base, ref: head }
  if (name !== undefined) {
    return { ...(await repositoryFor(services, requester, { owner, repo: name }, 'read')), ref }
  }
  if (owner.toLowerCase() === base.ownerLogin.toLowerCase()) return { repository: base, ref }
  const account = await services.views.accounts.findOne({ loginKey: owner.toLowerCase() })
  const related =
    account === undefined
      ? []
      : await repositories.find({ parentId: base.id, ownerId: account.id }, { limit: 1 })
  const parent = base.parentId === null ? undefined : await repositories.get(`${base.parentId}`)
  const repository = related[0] ?? (parent?.ownerId === account?.id ? parent : undefined)
  if (repository === undefined || !atLeast(accessTo(repository, requester), 'read')) {
    throw new Refused(refuse.notFound(`${owner} has no repository to compare with`))
  }
  return { repository, ref }
}

/**
 * Runs work in another repository: at a past moment, in that repository's own documents of the moment.
 * @throws Refused (not found) when the repository did not exist yet
 */
async function inRepository<T>(
  { moments }: Services,
  { request, reply }: Caller,
  id: number,
  work: () => Promise<T>,
): Promise<T> {
  const moment = currentMoment()
  if (moment === undefined) return await work()
  const subject = { kind: 'repository', id } as const
  const point = await moments.resolve(subject, { position: moment.position })
  if (point === undefined) throw new Refused(refuse.notFound('the repository did not exist at that moment'))
  const client = { client: clientOf(request), gone: disconnectSignal(reply) }
  const other = await moments.open(subject, point, client)
  try {
    return await runAt(other, work)
  } finally {
    other.release()
  }
}

export function compareRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { diffs } = services.gitLimits
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/compare/*',
      {
        schema: {
          tags: ['repository'],
          description:
            `\`{base}...{head}\`: the commits that the head has and the base lacks, at most ${MAX_COMMITS} without a page, ` +
            'and fewer when they are very large. ' +
            'Each side is a branch, a tag or a commit; the head may be `owner:branch` of a fork, or `owner/repo:branch`',
          params: Type.Object({ ...RepositoryParams.properties, '*': Type.String() }),
          querystring: Type.Object({
            ...PageQuery,
            verification: CommitFlagsQuery.verification,
            files: CommitFlagsQuery.files,
          }),
          response: { 200: Type.Object({ total_commits: Type.Integer(), commits: Type.Array(CommitWire) }) },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const [baseRef, headRef] = sidesOf(request.params['*'], repository)
        const head = await headOf(services, request.requester, repository, headRef)
        const caller = { request, reply }
        const from = {
          dir: gitDirOf(services, repository.id),
          sha: await servedCommitOf(services, caller, repository, baseRef),
        }
        const ofHead = () => servedCommitOf(services, caller, head.repository, head.ref)
        const isOther = head.repository.id !== repository.id
        const to = {
          dir: gitDirOf(services, head.repository.id),
          sha: await (isOther ? inRepository(services, caller, head.repository.id, ofHead) : ofHead()),
        }
        const page = wantedPage(request.query, services.config)
        const shown = page ?? { ...pageOf({}, services.config), limit: MAX_COMMITS }
        const flags = commitFlags({ ...request.query, stat: 'true' })
        const read = async (slot: GitSlot) => {
          const { queue, signal } = slot
          const start = await mergeBaseAcross(from, to, slot)
          // As in Gitea, unrelated histories have no commits in between.
          const range =
            start === undefined ? undefined : await commitRange(to.dir, start, to.sha, { queue, signal })
          const ids = range?.page(shown.skip, shown.limit) ?? []
          const listed = page === undefined ? await commitsWithin(to.dir, ids, MAX_BYTES) : ids
          return {
            total: range?.total ?? 0,
            isCut: listed.length < ids.length,
            found: await readCommits(services, to.dir, listed, flags, slot),
          }
        }
        const work = [to.dir, from.dir, from.sha, to.sha, 'compare'].join('\0')
        const { total, isCut, found } = await askGit(request, to.sha, () =>
          rememberingFailure(work, () => diffs.ask(clientOf(request), disconnectSignal(reply), read)),
        )
        sendCommitPaging(request, reply, services.publicUrl(), shown, total)
        if (isCut) sendTruncated(reply)
        const commits = await commitWires(services, repository, reply, found, flags)
        return withLongList({ total_commits: total, commits }, 'commits')
      },
    )
  }
}
