/** The commits of a merge with their signatures, from git. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { EvidenceCommits } from '../../../api/pull-requests/evidence.ts'
import { clientOf } from '../../../auth/requester.ts'
import { commitRange } from '../../../git/commits/commit-range.ts'
import type { CommitFacts } from '../../../git/commits/commits.ts'
import { GitFailed, RepositoryMissing } from '../../../git/process/errors.ts'
import type { GitSlot } from '../../../git/process/limits.ts'
import { disconnectSignal } from '../../../http/requests/client-disconnect.ts'
import type { PullDocument } from '../../../projections/models/pull-requests/pulls.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { readCommits } from '../../contents/commit-answers.ts'

/** Maximum number of listed commits. Verifying one starts two processes. */
const MAX_COMMITS = 100
const MAX_SUBJECT = 255

/** Resolves to the merged commits; null when git no longer has them. */
export async function mergedCommits(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  pull: PullDocument,
): Promise<EvidenceCommits> {
  const dir = gitDirOf(services, pull.repoId)
  const { head, mergeBase, merged } = pull
  const flags = { stat: false, files: false, verification: true }
  const read = async (slot: GitSlot) => {
    const range = await commitRange(dir, mergeBase, head.sha, slot)
    const ids = range.page(0, MAX_COMMITS)
    const own = merged === null || ids.includes(merged.commit) ? ids : [merged.commit, ...ids]
    return {
      total: range.total + own.length - ids.length,
      ...(await readCommits(services, dir, own, flags, slot)),
    }
  }
  try {
    const signal = disconnectSignal(reply)
    const { total, commits, verified } = await services.gitLimits.diffs.ask(clientOf(request), signal, read)
    return { total, list: commits.map((commit) => commitWire(commit, verified?.has(commit.sha) === true)) }
  } catch (error) {
    if (error instanceof GitFailed || error instanceof RepositoryMissing) return null
    throw error
  }
}

const commitWire = ({ sha, author, committer, message, signed }: CommitFacts, verified: boolean) => ({
  sha,
  author: author.name,
  author_email: author.email,
  committed_at: committer.date,
  subject: message.split('\n', 1).join('').slice(0, MAX_SUBJECT),
  signed: signed !== undefined,
  verified,
})
