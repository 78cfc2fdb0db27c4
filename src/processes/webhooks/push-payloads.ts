/** The payloads about refs and commits: `push`, `create`, `delete` and `status`. */

import { usersByEmail } from '../../api/users/users.ts'
import { wholeSeconds } from '../../domain/times.ts'
import type { CommitSummary, RefUpdate } from '../../events/catalog/branches.ts'
import type { CommitStatus } from '../../events/catalog/statuses.ts'
import type { Envelope } from '../../events/domain-events.ts'
import { type CommitChanges, commitChanges, commitRange } from '../../git/commits/commit-range.ts'
import { type CommitFacts, commitFacts } from '../../git/commits/commits.ts'
import { commitOfTagOrId } from '../../git/commits/revision.ts'
import { GitFailed, GitOutputTooLarge, GitTooSlow } from '../../git/process/errors.ts'
import { ZERO_ID } from '../../git/refs/names.ts'
import { gitRefs } from '../../git/refs/ref-source.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { type PayloadContext, payloadContextOf } from './payload-context.ts'

const HEADS = 'refs/heads/'
const TAGS = 'refs/tags/'

/** Maximum number of commits in a push payload, the newest ones. `total_commits` counts all. */
const MAX_COMMITS = 20
/** Maximum number of files per commit. */
const MAX_FILES = 300

export const branchOf = (ref: string) => (ref.startsWith(HEADS) ? ref.slice(HEADS.length) : undefined)
export const tagOf = (ref: string) => (ref.startsWith(TAGS) ? ref.slice(TAGS.length) : undefined)

/** Whether git would fail again in the same way. */
const isPermanent = (error: unknown) =>
  error instanceof GitFailed || error instanceof GitTooSlow || error instanceof GitOutputTooLarge

/**
 * Returns the file changes of commits. Changes that git cannot list in time are left out: later deliveries of the
 * webhook would wait.
 */
async function changesOf({ config }: Services, dir: string, commits: readonly CommitFacts[]) {
  try {
    return await commitChanges(dir, commits, MAX_FILES, { queue: 'query', timeout: config.gitDiffTimeoutMs })
  } catch (error) {
    if (!isPermanent(error)) throw error
    return new Map<string, CommitChanges>()
  }
}

/** Returns commits as Gitea's `PayloadCommit`, in the given order. */
async function commitWires(
  services: Services,
  { repository, page }: PayloadContext,
  commits: readonly CommitFacts[],
) {
  const emails = commits.flatMap(({ author, committer }) => [author.email, committer.email])
  const [people, changes] = await Promise.all([
    usersByEmail(services, emails),
    changesOf(services, gitDirOf(services, repository.id), commits),
  ])
  const person = ({ name, email }: CommitFacts['author']) => {
    return { name, email, username: people.get(email)?.login ?? '' }
  }
  return commits.map(({ sha, message, author, committer }) => {
    const files = changes.get(sha)?.files ?? []
    const named = (wanted: string) => files.filter(({ status }) => status === wanted).map(({ name }) => name)
    return {
      id: sha,
      message,
      url: `${page}/commit/${sha}`,
      author: person(author),
      committer: person(committer),
      verification: null,
      timestamp: author.date,
      added: named('added'),
      removed: named('removed'),
      modified: named('modified'),
    }
  })
}

type CommitWires = Awaited<ReturnType<typeof commitWires>>

/** Returns the commits that git still has, in the order of the ids. */
async function factsOf(dir: string, shas: readonly string[]): Promise<CommitFacts[]> {
  const found = await commitFacts(dir, shas, { queue: 'query' })
  return shas.map((sha) => found.get(sha)).filter((facts) => facts !== undefined)
}

/**
 * Returns the newest new commits of a branch and their number; for a new branch, those that the default branch lacks.
 */
async function pushedCommits(
  services: Services,
  context: PayloadContext,
  branch: string,
  { from, to }: RefUpdate,
) {
  const { repository } = context
  const dir = gitDirOf(services, repository.id)
  const main = await services.views.branches.get(branchId(repository.id, repository.defaultBranch))
  const isMain = branch === repository.defaultBranch
  const base = from ?? (isMain ? undefined : main?.commit.sha)
  if (to === null) return { commits: [], total: 0 }
  if (base === undefined) return { commits: await factsOf(dir, [to]), total: 1 }
  try {
    const range = await commitRange(dir, base, to, { queue: 'query' })
    return { commits: await factsOf(dir, range.page(0, MAX_COMMITS)), total: range.total }
  } catch (error) {
    if (!isPermanent(error)) throw error
    // The earlier commit was removed after a force push, or there are too many commits.
    return { commits: await factsOf(dir, [to]), total: 1 }
  }
}

function pushOf(
  context: PayloadContext,
  { ref, from, to }: RefUpdate,
  { commits, total, head }: { commits: CommitWires; total: number; head: CommitWires[number] | null },
) {
  const [before, after] = [from ?? ZERO_ID, to ?? ZERO_ID]
  const [first, last] = [from ?? commits.at(-1)?.id, to]
  const isRange = first !== undefined && last !== null && first !== last
  return {
    ref,
    before,
    after,
    compare_url: isRange ? `${context.page}/compare/${first}...${last}` : '',
    commits,
    total_commits: total,
    head_commit: head,
    repository: context.wire,
    pusher: context.sender,
    sender: context.sender,
  }
}

/** Payload of a push to a branch or tag. */
export async function pushPayload(services: Services, event: Envelope, repoId: number, update: RefUpdate) {
  const context = await payloadContextOf(services, event, repoId)
  if (context === undefined) return undefined
  const branch = branchOf(update.ref)
  if (branch !== undefined) {
    const { commits, total } = await pushedCommits(services, context, branch, update)
    const wires = await commitWires(services, context, commits)
    return pushOf(context, update, { commits: wires, total, head: wires[0] ?? null })
  }
  const dir = gitDirOf(services, repoId)
  const sha = update.to === null ? undefined : await commitOfTagOrId(gitRefs(dir), tagOf(update.ref) ?? '')
  const facts = sha === undefined ? [] : await factsOf(dir, [sha])
  const [head = null] = await commitWires(services, context, facts)
  return pushOf(context, update, { commits: [], total: 0, head })
}

/** Payload of a test delivery: a push of an existing commit. */
export async function testPayload(
  services: Services,
  event: Envelope,
  { repoId, branch, sha }: { repoId: number; branch: string; sha: CommitSummary['sha'] },
) {
  const context = await payloadContextOf(services, event, repoId)
  if (context === undefined) return undefined
  const commits = await commitWires(services, context, await factsOf(gitDirOf(services, repoId), [sha]))
  const update = { ref: `${HEADS}${branch}`, from: sha, to: sha }
  return pushOf(context, update, { commits, total: commits.length, head: commits[0] ?? null })
}

const shortRef = (ref: string) => ({
  ref: branchOf(ref) ?? tagOf(ref) ?? ref,
  ref_type: branchOf(ref) === undefined ? 'tag' : 'branch',
})

export async function createPayload(
  services: Services,
  event: Envelope,
  repoId: number,
  { ref, to }: RefUpdate,
) {
  const context = await payloadContextOf(services, event, repoId)
  return context && { sha: to, ...shortRef(ref), repository: context.wire, sender: context.sender }
}

export async function deletePayload(services: Services, event: Envelope, repoId: number, { ref }: RefUpdate) {
  const context = await payloadContextOf(services, event, repoId)
  return (
    context && { ...shortRef(ref), pusher_type: 'user', repository: context.wire, sender: context.sender }
  )
}

export async function statusPayload(services: Services, event: Envelope, status: CommitStatus) {
  const context = await payloadContextOf(services, event, status.repoId)
  if (context === undefined) return undefined
  const dir = gitDirOf(services, status.repoId)
  const [commit = null] = await commitWires(services, context, await factsOf(dir, [status.sha]))
  const at = wholeSeconds(event.metadata.at)
  return {
    commit,
    context: status.context,
    created_at: at,
    description: status.description,
    id: status.id,
    repository: context.wire,
    sender: context.sender,
    sha: status.sha,
    state: status.state,
    target_url: status.targetUrl,
    updated_at: at,
  }
}
