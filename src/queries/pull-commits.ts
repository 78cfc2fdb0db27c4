/** The commits of a pull request: `GET /repos/{owner}/{repo}/pulls/{index}/commits`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { ZERO_TIME } from '../commands/date-time.ts'
import { remembering } from '../git/answers.ts'
import { type CommitChanges, commitChanges, commitRange } from '../git/commit-range.ts'
import { type CommitFacts, commitFacts } from '../git/commits.ts'
import { unsignedCommits } from '../git/signatures.ts'
import { FlagQuery, flagOf } from '../http/flag.ts'
import { PageQuery, pageOf, sendCommitPaging } from '../http/paging.ts'
import type { PullDocument } from '../projections/pulls.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'
import { Nullable } from '../wire/nullable.ts'
import { askGit, pullInGit } from './pull-git.ts'
import { PullParams } from './pulls.ts'
import { UserWire, userWire } from './users.ts'

const CommitMetaWire = Type.Object({ url: Type.String(), sha: Type.String(), created: Type.String() })
const CommitUserWire = Type.Object({ name: Type.String(), email: Type.String(), date: Type.String() })
const VerificationWire = Type.Object({
  verified: Type.Boolean(),
  reason: Type.String(),
  signature: Type.String(),
  signer: Type.Null(),
  payload: Type.String(),
})

export const CommitWire = Type.Object({
  url: Type.String(),
  html_url: Type.String(),
  sha: Type.String(),
  created: Type.String(),
  commit: Type.Object({
    url: Type.String(),
    author: CommitUserWire,
    committer: CommitUserWire,
    message: Type.String(),
    tree: CommitMetaWire,
    verification: Nullable(VerificationWire),
  }),
  author: Nullable(UserWire),
  committer: Nullable(UserWire),
  parents: Type.Array(CommitMetaWire),
  files: Nullable(Type.Array(Type.Object({ filename: Type.String(), status: Type.String() }))),
  stats: Type.Object({ total: Type.Integer(), additions: Type.Integer(), deletions: Type.Integer() }),
})

interface CommitSurroundings {
  repository: RepositoryDocument
  publicUrl: string
  /** Users by their e-mail address. */
  people: ReadonlyMap<string, Static<typeof UserWire>>
  changes: ReadonlyMap<string, CommitChanges>
  /** Commits with a good signature; null when nobody asked. */
  verified: ReadonlySet<string> | null
  /** Whether anyone asked. */
  files: boolean
}

/** Rules for commits: of a merged pull request from the stored merge base, of another from its base. */
function startOf({ merged, mergeBase, base }: PullDocument): string {
  return merged === null ? base.sha : mergeBase
}

/** Signatures are given with what they sign, for whoever knows other keys than the server. */
function verificationWire(
  { sha, signed }: CommitFacts,
  verified: ReadonlySet<string>,
): Static<typeof VerificationWire> {
  const reason = signed === undefined ? 'gpg.error.not_signed_commit' : 'gpg.error.no_gpg_keys_found'
  return {
    verified: verified.has(sha),
    reason: verified.has(sha) ? '' : reason,
    signature: signed?.signature ?? '',
    signer: null,
    payload: signed?.payload ?? '',
  }
}

function commitWire(facts: CommitFacts, around: CommitSurroundings): Static<typeof CommitWire> {
  const { repository, publicUrl, people, changes, verified, files } = around
  const { sha, author, committer, message, tree, parents } = facts
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const api = `${publicUrl}/api/v1/repos/${fullName}/git`
  const changed = changes.get(sha) ?? { additions: 0, deletions: 0, files: [] }
  return {
    url: `${api}/commits/${sha}`,
    html_url: `${publicUrl}/${fullName}/commit/${sha}`,
    sha,
    created: committer.date,
    commit: {
      url: `${api}/commits/${sha}`,
      author,
      committer,
      message,
      tree: { url: `${api}/trees/${tree}`, sha: tree, created: committer.date },
      verification: verified === null ? null : verificationWire(facts, verified),
    },
    author: people.get(author.email) ?? null,
    committer: people.get(committer.email) ?? null,
    parents: parents.map((parent) => ({ url: `${api}/commits/${parent}`, sha: parent, created: ZERO_TIME })),
    files: files ? changed.files.map(({ name, status }) => ({ filename: name, status })) : null,
    stats: {
      total: changed.additions + changed.deletions,
      additions: changed.additions,
      deletions: changed.deletions,
    },
  }
}

const verdicts = remembering<ReadonlySet<string>>(10_000, ({ size }) => 1 + size)

/** Those of the commits that are well signed, by the server or by an allowed signer. */
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

async function peopleOf(
  { views, publicUrl }: Services,
  commits: readonly CommitFacts[],
): Promise<CommitSurroundings['people']> {
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
            verification: FlagQuery('whether to say how each commit is signed (default true)'),
            files: FlagQuery('whether to list the files of each commit (default true)'),
            ...PageQuery,
          }),
          response: { 200: Type.Array(CommitWire) },
        },
      },
      async (request, reply) => {
        const { repository, pull, dir } = await pullInGit(services, request, request.params)
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
        const around = { repository, publicUrl, people, changes, verified, files }
        return commits.map((commit) => commitWire(commit, around))
      },
    )
  }
}
