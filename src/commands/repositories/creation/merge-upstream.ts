/** Updates a branch of a fork from its parent: `POST /repos/{owner}/{repo}/merge-upstream`. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { accessTo, atLeast } from '../../../access/access.ts'
import { protectionOf } from '../../../access/protection-rules.ts'
import { onRepository } from '../../../access/repository-access.ts'
import { RepositoryParams } from '../../../api/repositories/repositories.ts'
import { signedIn } from '../../../auth/requester.ts'
import { type Routes, route } from '../../../auth/routes.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { isAncestor } from '../../../git/commits/history.ts'
import { commitTree } from '../../../git/commits/new-commit.ts'
import { mergeTrees } from '../../../git/merge/merge.ts'
import { resolveRef } from '../../../git/refs/refs.ts'
import { fetchObjects } from '../../../git/repository/fetch-objects.ts'
import { branchId } from '../../../projections/models/branches/branches.fold.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { requireMayPush } from '../../branches/create.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { commandContext, settled } from '../../execution/request-context.ts'
import { moveJournaled, moveOfEarlierAttempt } from '../../git/journaled-moves.ts'
import { reauthorizeWriter, type Writer } from '../../git/reauthorize-writer.ts'
import { withRefLock } from '../../git/ref-lock.ts'
import { mergeLfsObjects } from '../../lfs/merge-objects.ts'
import { recordAndMoveHeads } from '../../pull-requests/branches/move-heads.ts'
import { cleanTree } from '../../pull-requests/build-merge.ts'
import { signatureOf } from '../../users/accounts/signature.ts'

const MergeUpstreamOption = Type.Object(
  {
    branch: Type.String({
      description: 'Branch of the fork; it gets the commits of the same branch of the parent',
    }),
    ff_only: Type.Optional(Type.Boolean({ description: 'Whether only a fast-forward is allowed' })),
  },
  { title: 'MergeUpstreamRequest' },
)

const MergeType = Type.Enum(['up-to-date', 'fast-forward', 'merge'])
type MergeType = Static<typeof MergeType>

/** A branch of the parent. */
interface Upstream {
  parent: RepositoryDocument
  branch: string
  tip: string
}

/**
 * Returns the parent's branch of the same name, or its default branch, as in Gitea. @throws Refused (unprocessable, not
 * found)
 */
async function upstreamOf(
  services: Services,
  { parentId }: RepositoryDocument,
  requester: Writer['requester'],
  branch: string,
): Promise<Upstream> {
  if (parentId === null) throw new Refused(refuse.unprocessable('the repository is not a fork'))
  const { branches, repositories } = services.views
  const parent = await repositories.get(`${parentId}`)
  if (parent === undefined || !atLeast(accessTo(parent, requester), 'read')) {
    throw notFoundIn(repositories, 'the parent of the repository not found')
  }
  const found =
    (await branches.get(branchId(parent.id, branch))) ??
    (await branches.get(branchId(parent.id, parent.defaultBranch)))
  if (found === undefined) throw notFoundIn(branches, 'the parent does not have the branch')
  return { parent, branch: found.name, tip: found.commit.sha }
}

/** Refuses a branch that requires signed commits: only a push verifies signatures. */
function requireMayUpdate(writer: Writer, branch: string): void {
  requireMayPush(writer, branch)
  if (protectionOf(writer.repository.protections, branch)?.requireSigned) {
    throw new Refused(refuse.forbidden('the branch accepts signed commits only: push them'))
  }
}

/** Returns the new tip of the branch. @throws Refused (conflict) */
async function nextTip(
  services: Services,
  context: CommandContext,
  { repository, requester }: Writer,
  { parent, branch: theirs, tip }: Upstream,
  { branch, from, ffOnly }: { branch: string; from: string; ffOnly: boolean },
): Promise<string> {
  const dir = gitDirOf(services, repository.id)
  if (await isAncestor(dir, from, tip)) return tip
  if (ffOnly) throw new Refused(refuse.conflict('ff_only: the branch has commits that the parent lacks'))
  const tree = cleanTree(await mergeTrees(dir, from, tip))
  if (typeof tree !== 'string') throw new Refused(tree)
  const committer = signatureOf(services, requester, context.at)
  const message = `Merge branch '${theirs}' of ${parent.ownerLogin}/${parent.name} into ${branch}\n`
  const { signingKey } = services.config
  return commitTree(dir, { tree, parents: [from, tip], message, author: committer, committer, signingKey })
}

async function mergeUpstream(
  services: Services,
  request: FastifyRequest,
  context: CommandContext,
  repository: RepositoryDocument,
  { branch, ff_only: ffOnly }: Static<typeof MergeUpstreamOption>,
): Promise<MergeType> {
  const upstream = await upstreamOf(services, repository, signedIn(request), branch)
  const { parent, tip } = upstream
  const repoId = repository.id
  const dir = gitDirOf(services, repoId)
  const ref = `refs/heads/${branch}`
  // Before the lock, since it may take long.
  await fetchObjects(dir, gitDirOf(services, parent.id), tip)
  const mergeTypeOf = async (to: string) => ((await isAncestor(dir, to, tip)) ? 'fast-forward' : 'merge')
  return withRefLock(services, repoId, async (since) => {
    const before = await moveOfEarlierAttempt(services, context, repoId, 'update')
    if (before?.type === 'RefsUpdated') return mergeTypeOf(before.data.refs[0]?.to ?? tip)
    const writer = await reauthorizeWriter(services, request, repoId)
    requireMayUpdate(writer, branch)
    const from = await resolveRef(dir, ref)
    if (from === null) throw new Refused(refuse.notFound('branch not found'))
    if (await isAncestor(dir, tip, from)) return 'up-to-date'
    const to = await nextTip(services, context, writer, upstream, { branch, from, ffOnly: ffOnly ?? false })
    // Before the move: a retry after a crash finds the branch moved, and does nothing.
    await mergeLfsObjects(services, context, { repoId, head: { repoId: parent.id } }, { from, to })
    const moves = [{ ref, from, to }]
    const outcome = await moveJournaled(services, context, repoId, 'update', moves, () =>
      recordAndMoveHeads(services, context, repoId, 'update', moves, since),
    )
    if (outcome !== 'moved') throw new Refused(refuse.conflict('a push has moved the branch in the meantime'))
    return mergeTypeOf(to)
  })
}

export const mergeUpstreamRoutes: Routes = (services) => async (app) => {
  const { branches } = services.views

  app.post(
    '/repos/:owner/:repo/merge-upstream',
    route('repository', {
      params: RepositoryParams,
      body: MergeUpstreamOption,
      response: { 200: Type.Object({ merge_type: MergeType }) },
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'write')
      const requester = signedIn(request)
      const { branch } = request.body
      if ((await branches.get(branchId(repository.id, branch))) === undefined) {
        throw notFoundIn(branches, 'branch not found')
      }
      requireMayUpdate({ repository, access, requester }, branch)
      const context = commandContext(request)
      const merge_type = await mergeUpstream(services, request, context, repository, request.body)
      await settled(services, context, reply)
      return { merge_type }
    },
  )
}
