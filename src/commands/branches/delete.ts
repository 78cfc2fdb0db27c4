/** `DELETE /repos/{owner}/{repo}/branches/{branch}` */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { deleteRef } from '../../git/refs.ts'
import { inTurn } from '../../git/slots.ts'
import { commandContext, repositoryFor, settled } from '../../http/requests.ts'
import { branchId } from '../../projections/branches.ts'
import { BranchParams } from '../../queries/branches.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { journaled, recordRefs } from '../refs-updated.ts'
import { Refused, refuse } from '../refusal.ts'

export function deleteBranchRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.delete(
      '/repos/:owner/:repo/branches/*',
      { schema: { tags: ['repository'], params: BranchParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'write')
        const name = request.params['*']
        const branch = await services.views.branches.get(branchId(repository.id, name))
        if (branch === undefined) throw new Refused(refuse.notFound('branch not found'))
        if (name === repository.defaultBranch) {
          throw new Refused(refuse.forbidden('the default branch can not be deleted'))
        }
        const context = commandContext(request)
        const ref = `refs/heads/${name}`
        const { sha } = branch.commit
        const dir = gitDirOf(services, repository.id)
        // In turn with pushes: the log tells of the moves of a branch in the order in which git made them.
        const outcome = await inTurn(dir, () =>
          journaled(services, repository.id, async () => {
            const deleted = await deleteRef(dir, ref, sha)
            const moved = deleted === 'moved' ? [{ ref, from: sha, to: null }] : []
            await recordRefs(services, context, repository.id, 'branch-deletion', moved)
            return deleted
          }),
        )
        if (outcome !== 'moved') throw new Refused(refuse.conflict('the branch was pushed to meanwhile'))
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
