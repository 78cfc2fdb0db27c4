/** Commits changes of files to a branch, on its tip, without a work tree. */
import type { FastifyRequest } from 'fastify'
import { type Access, atLeast } from '../../access/access.ts'
import { awaitPermissions } from '../../access/await-permissions.ts'
import { mayPush, protectionOf } from '../../access/protection-rules.ts'
import { repositoryNow } from '../../access/repository-access.ts'
import { memberOf } from '../../access/team-membership.ts'
import { requesterNow } from '../../auth/auth.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import type { Signature } from '../../git/commits/commits.ts'
import { commitTree, signatureLine } from '../../git/commits/new-commit.ts'
import { storeBlob } from '../../git/objects/loose-objects.ts'
import { branchNameProblem, EMPTY_TREE, newBranchNameProblem } from '../../git/refs/names.ts'
import { listRefs, readRefs } from '../../git/refs/refs.ts'
import { editTree } from '../../git/trees/edit-tree.ts'
import { entriesAlongPaths, treeOf } from '../../git/trees/trees.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { reserveSpace } from '../execution/reserve-space.ts'
import { moveJournaled, moveOfEarlierAttempt } from '../git/journaled-moves.ts'
import { withRefLock } from '../git/ref-lock.ts'
import { recordAndMoveHeads } from '../pull-requests/branches/move-heads.ts'
import { pushableRefs } from '../pull-requests/maintainer-edits.ts'
import { signatureOf } from '../users/accounts/signature.ts'
import type { CommitOptions, RequestedChange } from './body.ts'
import { changeProblem, defaultMessage, type FileChange, filesAfter } from './contents.decider.ts'

/** Number of blobs that are stored concurrently. */
const CONCURRENT_BLOBS = 8
/** Estimated size of a commit without its files, in bytes: mostly trees. */
const COMMIT_BYTES = 16 * 1024

/** Name of the step by which a retried request finds its first event. */
const STEP = 'push'

export interface FilesChange {
  repository: RepositoryDocument
  options: CommitOptions
  changes: readonly RequestedChange[]
}

/**
 * Commits the changes and moves the branch, or creates the new branch. Resolves to the commit id. Files are stored
 * before; after a failure they are unreachable objects, and no ref has moved. @throws Refused: forbidden (permission,
 * protection), not found (branch, file), unprocessable (path, stale sha, existing file or branch), conflict when the
 * branch has moved
 */
export async function commitFiles(
  services: Services,
  request: FastifyRequest,
  context: CommandContext,
  { repository, options, changes }: FilesChange,
): Promise<string> {
  requireBranchName('branch', options.branch)
  requireBranchName('new_branch', options.newBranch)
  for (const change of changes) {
    const problem = changeProblem({ ...change, blob: change.content })
    if (problem !== undefined) throw new Refused(problem)
  }
  const { id: repoId, ownerId, ownerLogin } = repository
  const bytes = changes.reduce((sum, { content }) => sum + bytesOf(content ?? []), COMMIT_BYTES)
  const space = { owner: { id: ownerId, login: ownerLogin }, repoId, bytes }
  const reservation = await reserveSpace(services, space)
  let isDone = false
  try {
    const files = await storeContents(gitDirOf(services, repoId), changes)
    const sha = await withRefLock(services, repoId, async (since) => {
      const before = await moveOfEarlierAttempt(services, context, repoId, STEP)
      if (before?.type === 'RefsUpdated') return before.data.refs[0]?.to ?? ''
      // Permissions and rules may have changed while the request waited for the lock.
      await awaitPermissions(services)
      const committer = await requesterNow(request)
      await requireMayCommit(services, repoId, committer, options.newBranch)
      const { from, to } = await makeCommit(services, context, { repoId, committer, options, changes: files })
      if (from === null) requireBranchName('new_branch', options.newBranch, newBranchNameProblem)
      const ref = `refs/heads/${options.newBranch}`
      const moved = [{ ref, from, to }]
      const outcome = await moveJournaled(services, context, repoId, STEP, moved, () =>
        recordAndMoveHeads(services, context, repoId, STEP, moved, since),
      )
      if (outcome === 'name-conflict') throw conflict('new_branch: another branch has a part of this name')
      if (outcome === 'stale') throw conflict('a push has moved the branch in the meantime; try again')
      return to
    })
    isDone = true
    return sha
  } finally {
    reservation.end(isDone ? 'written' : 'dropped')
  }
}

const bytesOf = (parts: readonly Buffer[]) => parts.reduce((sum, { length }) => sum + length, 0)

const conflict = (reason: string) => new Refused(refuse.conflict(reason))

function requireBranchName(field: string, name: string, problemOf = branchNameProblem): void {
  const problem = problemOf(name)
  if (problem === undefined) return
  throw new Refused(refuse.unprocessable(`${field}: ${problem}`, [`${field}: ${problem}`]))
}

/** Checks that the requester may push to the branch. @throws Refused (not found, forbidden, locked) */
export async function requireMayCommit(
  services: Services,
  repoId: number,
  requester: AccountDocument,
  branch: string,
): Promise<void> {
  const { repository, access } = await repositoryNow(services, requester, repoId, 'read')
  const protection = protectionOf(repository.protections, branch)
  if (
    !mayPush(
      protection,
      memberOf(repository, requester),
      await accessToBranch(services, repository, requester, access, branch),
    )
  ) {
    const reason = protection === undefined ? '' : 'the branch is protected: '
    throw new Refused(refuse.forbidden(`${reason}you may not push to it`))
  }
  if (protection?.requireSigned && services.config.signingKey === undefined) {
    throw new Refused(
      refuse.forbidden('the branch accepts signed commits only, and this server has no signing key'),
    )
  }
}

/** Returns the access to the branch: a pull request may let writers of its base push to its head branch. */
async function accessToBranch(
  services: Services,
  repository: RepositoryDocument,
  requester: AccountDocument,
  access: Access,
  branch: string,
): Promise<Access> {
  if (atLeast(access, 'write')) return access
  const ref = `refs/heads/${branch}`
  return (await pushableRefs(services, repository, requester, [ref])).has(ref) ? 'write' : access
}

/** Stores contents as blobs; equal contents once. */
async function storeContents(dir: string, changes: readonly RequestedChange[]): Promise<FileChange[]> {
  const stored: FileChange[] = []
  for (let i = 0; i < changes.length; i += CONCURRENT_BLOBS) {
    const part = changes.slice(i, i + CONCURRENT_BLOBS).map(async ({ content, ...change }) => ({
      ...change,
      blob: content === undefined ? undefined : await storeBlob(dir, content),
    }))
    stored.push(...(await Promise.all(part)))
  }
  return stored
}

/** Creates the commit on the tip. Returns it with the expected value of the ref. */
async function makeCommit(
  services: Services,
  context: CommandContext,
  {
    repoId,
    committer: requester,
    options,
    changes,
  }: { repoId: number; committer: AccountDocument; options: CommitOptions; changes: readonly FileChange[] },
): Promise<{ from: string | null; to: string }> {
  const dir = gitDirOf(services, repoId)
  const tip = await tipFor(dir, options)
  const tree = tip === null ? EMPTY_TREE : await treeOf(dir, tip)
  const paths = changes.flatMap(({ path, fromPath }) => [path, fromPath])
  const entries = await entriesAlongPaths(dir, tree, paths)
  const files = filesAfter(changes, (path) => entries.get(path))
  if (isRefusal(files)) throw new Refused(files)
  const { author, committer } = peopleOf(services, requester, options, context.at)
  const to = await commitTree(dir, {
    tree: await editTree(dir, tree, files),
    parents: tip === null ? [] : [tip],
    message: messageOf(options, changes, committer),
    author,
    committer,
    signingKey: services.config.signingKey,
  })
  return { from: options.newBranch === options.branch ? tip : null, to }
}

/** Returns the tip of the branch; null in an empty repository. @throws Refused (not found, unprocessable) */
async function tipFor(dir: string, { branch, newBranch }: CommitOptions): Promise<string | null> {
  const refs = [branch, newBranch].map((name) => `refs/heads/${name}`)
  const [tip = null, other = null] = await readRefs(dir, refs).then((found) =>
    refs.map((ref) => found.get(ref) ?? null),
  )
  if (tip === null && (await listRefs(dir, 'refs/heads/')).length > 0) {
    throw new Refused(refuse.notFound(`branch ${branch} not found`))
  }
  if (newBranch !== branch && other !== null) {
    const reason = `new_branch: the branch ${newBranch} exists already`
    throw new Refused(refuse.unprocessable(reason, [reason]))
  }
  return tip
}

/** Returns author and committer: each as the request names it, or else as the other one, or else the requester. */
function peopleOf(
  services: Services,
  requester: AccountDocument,
  { author, committer, authorDate, committerDate }: CommitOptions,
  now: string,
): { author: Signature; committer: Signature } {
  const own = signatureOf(services, requester, now)
  const named = ({ name = '', email = '' }: { name?: string; email?: string }) => {
    if (email === '') return undefined
    const isOwn = email.toLowerCase() === requester.email.toLowerCase()
    return { name: name || (isOwn ? own.name : ''), email }
  }
  const [writes, commits] = [named(author), named(committer)]
  return {
    author: { ...(writes ?? commits ?? own), date: authorDate ?? now },
    committer: { ...(commits ?? writes ?? own), date: committerDate ?? now },
  }
}

function messageOf(
  { message, signoff }: CommitOptions,
  changes: readonly FileChange[],
  committer: Signature,
): string {
  const text = message || defaultMessage(changes)
  if (!signoff) return text
  const person = signatureLine(committer).replace(/ \d+ [+-]\d{4}$/, '')
  return `${text}\n\nSigned-off-by: ${person}`
}
