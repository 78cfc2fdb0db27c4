/** Moves a branch to another commit of the repository: `PUT /repos/{owner}/{repo}/branches/{branch}`. */
import { Type } from 'typebox'
import { protectionOf } from '../../access/protection-rules.ts'
import { onRepository } from '../../access/repository-access.ts'
import { BranchParams } from '../../api/branches/branches.ts'
import { requireServed, servedCommitOf } from '../../api/contents/reached-objects.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { isAncestor } from '../../git/commits/history.ts'
import { resolveRef } from '../../git/refs/refs.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { moveJournaled } from '../git/journaled-moves.ts'
import { reauthorizeWriter, type Writer } from '../git/reauthorize-writer.ts'
import { withRefLock } from '../git/ref-lock.ts'
import { recordAndMoveHeads } from '../pull-requests/branches/move-heads.ts'
import { requireMayPush } from './create.ts'

const conflict = (reason: string) => new Refused(refuse.conflict(reason))
const moved = () => conflict('old_commit_id: the branch is at another commit')

interface Move {
  branch: string
  from: string
  to: string
  force: boolean
}

/**
 * Checks whether the branch may move. A protected branch accepts only fast-forwards; others accept the rest with
 * `force`. A rule for signed commits accepts only pushes, which verify signatures.
 * @throws Refused (forbidden, conflict)
 */
async function requireMayMove(
  services: Services,
  { repository }: Writer,
  { branch, from, to, force }: Move,
): Promise<void> {
  const protection = protectionOf(repository.protections, branch)
  if (protection?.requireSigned) {
    throw new Refused(refuse.forbidden('the branch accepts signed commits only: push them'))
  }
  if (await isAncestor(gitDirOf(services, repository.id), from, to)) return
  if (protection !== undefined) {
    throw new Refused(refuse.forbidden('the branch is protected and accepts only fast-forwards'))
  }
  if (!force) throw conflict('new_commit_id: must be a fast-forward; send force to move the branch anyway')
}

export const moveBranchRoutes: Routes = (services) => async (app) => {
  const { branches } = services.views

  app.put(
    '/repos/:owner/:repo/branches/*',
    route('repository', {
      params: BranchParams,
      body: Type.Object(
        {
          new_commit_id: Type.String({
            minLength: 1,
            description:
              'Branch, tag or commit id that the branch moves to; a ref of the repository must reach it',
          }),
          old_commit_id: Type.Optional(
            Type.String({ description: 'Id of the present commit of the branch; another one gives 409' }),
          ),
          force: Type.Optional(
            Type.Boolean({
              description: 'Whether to allow a move that is not a fast-forward, like a forced push',
            }),
          ),
        },
        { title: 'MoveBranchOption' },
      ),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'write')
      const requester = signedIn(request)
      const branch = request.params['*']
      const ref = `refs/heads/${branch}`
      const { new_commit_id: wanted, old_commit_id: expected, force } = request.body
      if ((await branches.get(branchId(repository.id, branch))) === undefined) {
        throw notFoundIn(branches, 'branch not found')
      }
      requireMayPush({ repository, access, requester }, branch)
      const caller = { request, reply }
      const to = await servedCommitOf(services, caller, repository, wanted)
      const context = requestContext(request)
      await withRefLock(services, repository.id, async (since) => {
        const writer = await reauthorizeWriter(services, request, repository.id)
        requireMayPush(writer, branch)
        await requireServed(services, caller, repository, to)
        const from = await resolveRef(gitDirOf(services, repository.id), ref)
        if (from === null) throw new Refused(refuse.notFound('branch not found'))
        if (expected && expected !== from) throw moved()
        if (from === to) return
        await requireMayMove(services, writer, { branch, from, to, force: force ?? false })
        const moves = [{ ref, from, to }]
        const outcome = await moveJournaled(services, context, repository.id, 'push', moves, () =>
          recordAndMoveHeads(services, context, repository.id, 'push', moves, since),
        )
        if (outcome !== 'moved') throw moved()
      })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
