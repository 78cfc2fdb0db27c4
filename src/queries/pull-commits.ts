/** The commits of a pull request: `GET /repos/{owner}/{repo}/pulls/{index}/commits`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { createAnswerCache } from '../git/answer-cache.ts'
import { commitChanges, commitRange } from '../git/commit-range.ts'
import { type CommitFacts, commitFacts } from '../git/commits.ts'
import { unsignedCommits } from '../git/signatures.ts'
import { FlagQuery, flagOf } from '../http/flag.ts'
import { PageQuery, pageOf, sendCommitPaging } from '../http/paging.ts'
import type { PullDocument } from '../projections/pulls.ts'
import type { Services } from '../services.ts'
import { type CommitContext, CommitWire, commitWire } from '../wire/commits.ts'
import { PullParams } from '../wire/pulls.ts'
import { userWire } from '../wire/users.ts'
import { askGit, pullInGit } from './pull-git.ts'

/** The commit that the list starts after: the merge base of a merged pull request, the base of an open one. */
function startOf({ merged, mergeBase, base }: PullDocument): string {
  return merged === null ? base.sha : mergeBase
}

/** By repository, keys and commits: which commits are well signed. */
const verdicts = createAnswerCache<ReadonlySet<string>>(10_000, ({ size }) => 1 + size)

/** Ids of the commits with a good signature of the server or of an allowed signer. */
async function verifiedOf(
  { config }: Services,
  dir: string,
  commits: readonly CommitFacts[],
): Promise<ReadonlySet<string>> {
  const { signingKey, allowedSigners } = config
  const signed = commits.filter((commit) => commit.signed !== undefined).map(({ sha }) => sha)
  if (signed.length === 0 || (signingKey ?? allowedSigners) === undefined) return new Set()
  return verdicts(`${dir}\0${signingKey}\0${allowedSigners}\0${signed.join()}`, async () => {
    const unsigned = new Set(await unsignedCommits(dir, signed, { signingKey, allowedSigners }))
    return new Set(signed.filter((sha) => !unsigned.has(sha)))
  })
}

/** Users by the e-mail addresses of authors and committers. */
async function peopleOf(
  { views, publicUrl }: Services,
  commits: readonly CommitFacts[],
): Promise<CommitContext['people']> {
  const emails = new Set(commits.flatMap(({ author, committer }) => [author.email, committer.email]))
  emails.delete('')
  if (emails.size === 0) return new Map()
  const found = await views.accounts.find({ kind: 'user', email: { $in: [...emails] } })
  return new Map(found.map((account) => [account.email, userWire(account, publicUrl())]))
}

export function pullCommitsRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/commits',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          querystring: Type.Object({
            verification: FlagQuery('whether to verify the signature of each commit (default true)'),
            files: FlagQuery('whether to list the files of each commit (default true)'),
            ...PageQuery,
          }),
          response: { 200: Type.Array(CommitWire) },
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request)
        const page = pageOf(request.query, services.config)
        const { total, commits, changes } = await askGit(request, async () => {
          const range = await commitRange(dir, startOf(pull), pull.head.sha)
          const ids = range.page(page.skip, page.limit)
          const facts = await commitFacts(dir, ids)
          const commits = ids.flatMap((id) => facts.get(id) ?? [])
          const changes = await commitChanges(dir, commits, services.config.maxDiffFiles)
          return { total: range.total, commits, changes }
        })
        const people = await peopleOf(services, commits)
        const publicUrl = services.publicUrl()
        sendCommitPaging(request, reply, publicUrl, page, total)
        const wanted = flagOf(request.query.verification, true)
        const verified = wanted ? await verifiedOf(services, dir, commits) : null
        const files = flagOf(request.query.files, true)
        const context = { repository, publicUrl, people, changes, verified, files }
        return commits.map((commit) => commitWire(commit, context))
      },
    )
  }
}
