/** Common parts of answers about commits: of pull requests, repositories and comparisons. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import {
  type CommitContext,
  type CommitWire,
  commitWire,
  type VerificationWire,
  verificationWire,
} from '../../api/contents/commits.ts'
import { missingCommit } from '../../api/contents/refs-in-time.ts'
import { usersByEmail, userWire } from '../../api/users/users.ts'
import { clientOf } from '../../auth/requester.ts'
import { type CommitChanges, commitChanges } from '../../git/commits/commit-range.ts'
import { type CommitFacts, commitFacts } from '../../git/commits/commits.ts'
import { unsignedCommits } from '../../git/commits/signatures.ts'
import { type DiffTextOptions, diffText } from '../../git/diff/diff.ts'
import { createAnswerCache } from '../../git/process/answer-cache.ts'
import { GitFailed } from '../../git/process/errors.ts'
import type { GitLimits, GitSlot } from '../../git/process/limits.ts'
import { matchesTag } from '../../http/answers/entity-tags.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { sendTruncated } from '../../http/requests/paging.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'

export const CommitFlagsQuery = {
  stat: OptionalText('Whether to count the changed lines of each commit; default true'),
  verification: OptionalText('Whether to verify the signature of each commit; default true'),
  files: OptionalText('Whether to list the files of each commit; default true'),
}

/** Requested details of each commit. */
export interface CommitFlags {
  stat: boolean
  verification: boolean
  files: boolean
}

export const commitFlags = (query: {
  stat?: string
  verification?: string
  files?: string
}): CommitFlags => ({
  stat: flagOf(query.stat, true),
  verification: flagOf(query.verification, true),
  files: flagOf(query.files, true),
})

/**
 * Runs a query of a commit in git, which fails only when objects are missing.
 * @throws Refused: not found, or gone at a past moment
 */
export async function askGit<T>(
  request: FastifyRequest,
  commit: string,
  query: () => Promise<T>,
): Promise<T> {
  try {
    return await query()
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    request.log.warn({ err: error }, 'commits are missing')
    throw missingCommit(commit, 'these commits no longer exist')
  }
}

/** Sends the differences between two commits as text. @throws Refused (not found or gone) when a commit is missing */
export async function sendDiff(
  request: FastifyRequest,
  reply: FastifyReply,
  ...[limits, dir, from, to, options]: [GitLimits, ...Parameters<typeof diffText>]
): Promise<FastifyReply> {
  const signal = disconnectSignal(reply)
  const share = limits.diffs.shareOf(clientOf(request))
  const text = await askGit(request, to, () => diffText(dir, from, to, { ...options, signal, share }))
  return reply.type('text/plain; charset=utf-8').send(text)
}

/** Sends a diff that the client may cache, because the commit ids determine its content. */
export async function sendUnchangingDiff(
  request: FastifyRequest,
  reply: FastifyReply,
  limits: GitLimits,
  { dir, from, to }: { dir: string; from: string | null; to: string },
  { kind, binary }: Pick<DiffTextOptions, 'kind' | 'binary'>,
): Promise<FastifyReply> {
  // A weak tag, because another version of git may write the same differences as another text.
  const tag = `W/"${from ?? ''}-${to}.${kind}${binary ? '.binary' : ''}"`
  reply.headers({ ETag: tag, 'Cache-Control': 'private, no-cache' })
  if (matchesTag(request.headers['if-none-match'], tag)) return reply.code(304).send(null)
  try {
    return await sendDiff(request, reply, limits, dir, from, to, { kind, binary })
  } catch (error) {
    reply.removeHeader('ETag')
    throw error
  }
}

/** By repository, keys and commits: the commits with a good signature. */
const verdicts = createAnswerCache<ReadonlySet<string>>(10_000, ({ size }) => 1 + size)

/** Ids of the commits with a good signature of the server or of an allowed signer. */
async function verifiedOf(
  { config }: Services,
  dir: string,
  commits: readonly CommitFacts[],
  { queue, signal }: GitSlot,
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

/** Commit data from git. */
export interface FoundCommits {
  commits: CommitFacts[]
  changes: ReadonlyMap<string, CommitChanges>
  verified: ReadonlySet<string> | null
  /** Whether a commit has more files than may be listed. */
  truncated: boolean
}

/**
 * Reads commits, in this order. Leaves out missing ones.
 * @throws GitFailed when their changed objects are missing
 */
export async function readCommits(
  services: Services,
  dir: string,
  ids: readonly string[],
  { stat, verification, files }: CommitFlags,
  slot: GitSlot,
): Promise<FoundCommits> {
  const { queue, signal } = slot
  const facts = await commitFacts(dir, ids, { queue, signal })
  const commits = ids.flatMap((id) => facts.get(id) ?? [])
  const { maxDiffFiles } = services.config
  // One file more than the limit, to detect truncation.
  const changes =
    stat || files
      ? await commitChanges(dir, commits, maxDiffFiles + 1, slot)
      : new Map<string, CommitChanges>()
  return {
    commits,
    changes,
    truncated: files && [...changes.values()].some((changed) => changed.files.length > maxDiffFiles),
    verified: verification ? await verifiedOf(services, dir, commits, slot) : null,
  }
}

/** Returns the verification of a commit's signature. @throws Refused (not found or gone) when the commit is missing */
export async function verificationOf(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  repoId: number,
  sha: string,
): Promise<Static<typeof VerificationWire>> {
  const { diffs } = services.gitLimits
  const flags = { stat: false, files: false, verification: true }
  const { commits, verified } = await askGit(request, sha, () =>
    diffs.ask(clientOf(request), disconnectSignal(reply), (slot) =>
      readCommits(services, gitDirOf(services, repoId), [sha], flags, slot),
    ),
  )
  const [commit] = commits
  if (commit === undefined) throw missingCommit(sha, 'the commit no longer exists')
  return verificationWire(commit, verified ?? new Set())
}

/** Returns commits as Gitea's `Commit`, with one look-up of all users, and marks truncated files. */
export async function commitWires(
  services: Services,
  repository: RepositoryDocument,
  reply: FastifyReply,
  { commits, changes, verified, truncated }: FoundCommits,
  { stat, files }: CommitFlags,
): Promise<Static<typeof CommitWire>[]> {
  if (truncated) sendTruncated(reply)
  const publicUrl = services.publicUrl()
  const emails = commits.flatMap(({ author, committer }) => [author.email, committer.email])
  const found = await usersByEmail(services, emails)
  const people: CommitContext['people'] = new Map(
    [...found].map(([email, account]) => [email, userWire(account, publicUrl)]),
  )
  const maxFiles = services.config.maxDiffFiles
  const context = { repository, publicUrl, people, changes, verified, files, maxFiles, stat }
  return commits.map((commit) => commitWire(commit, context))
}
