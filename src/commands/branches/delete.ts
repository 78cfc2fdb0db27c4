/** Deletes a branch: `DELETE /repos/{owner}/{repo}/branches/{branch}`. */

import { protectionOf } from '../../access/protection-rules.ts'
import { onRepository } from '../../access/repository-access.ts'
import { BranchParams } from '../../api/branches/branches.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import type { BranchPoint } from '../../events/catalog/pull-requests.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { removeBranch } from '../git/change-refs.ts'
import { reauthorizeWriter } from '../git/reauthorize-writer.ts'
import { closeFromDeleted } from '../pull-requests/branches/deleted-branches.ts'

function requireDeletable({ defaultBranch, protections }: RepositoryDocument, name: string): void {
  if (name === defaultBranch)
    throw new Refused(coded('default_branch', refuse.forbidden('the default branch cannot be deleted')))
  if (protectionOf(protections, name) !== undefined) {
    throw new Refused(
      coded('branch_protected', refuse.forbidden('the branch is protected and cannot be deleted')),
    )
  }
}

/** Closes the pull requests from the branch before the answer. After a failure the process `pull_heads` closes them. */
async function closePulls(services: Services, context: CommandContext, { repoId, branch, sha }: BranchPoint) {
  if (!(await services.projector.waitFor(context.written, services.config.projectionWaitMs))) return
  const deleted = { ref: `refs/heads/${branch}`, from: sha, to: null }
  await closeFromDeleted(services, context, repoId, [deleted], context.written).catch((error: unknown) =>
    services.log.warn(
      { err: error, repoId },
      'pull requests from a deleted branch are closed later, by the process pull_heads',
    ),
  )
}

export const deleteBranchRoutes: Routes = (services) => async (app) => {
  app.delete(
    '/repos/:owner/:repo/branches/*',
    route('repository', { params: BranchParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const name = request.params['*']
      const branch = await services.views.branches.get(branchId(repository.id, name))
      if (branch === undefined) throw notFoundIn(services.views.branches, 'branch not found')
      requireDeletable(repository, name)
      const context = commandContext(request)
      const point = { repoId: repository.id, branch: name, sha: branch.commit.sha }
      const outcome = await removeBranch(services, context, point, async () => {
        requireDeletable((await reauthorizeWriter(services, request, repository.id)).repository, name)
      })
      if (outcome !== 'moved')
        throw new Refused(refuse.conflict('a push has moved the branch in the meantime'))
      await closePulls(services, context, point)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
