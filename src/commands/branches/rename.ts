/** Renames a branch: `PATCH /repos/{owner}/{repo}/branches/{branch}`. */
import { Type } from 'typebox'
import { isPattern } from '../../access/glob.ts'
import { mayPush, protectionOf } from '../../access/protection-rules.ts'
import { onRepository } from '../../access/repository-access.ts'
import { memberOf } from '../../access/team-membership.ts'
import { BranchParams } from '../../api/branches/branches.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { withProtection } from '../../events/repository-settings.ts'
import { newBranchNameProblem } from '../../git/refs/names.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { reauthorizeWriter, type Writer } from '../git/reauthorize-writer.ts'
import { renameBranch } from './rename-branch.ts'

const taken = refuse.unprocessable('name: there is a branch with that name, or its path has that name')

/**
 * Checks the permission. As in Gitea, only admins rename the default branch, and a branch with a rule of exactly its
 * name; that rule is renamed too. A branch under a pattern keeps its name. A rule for the new name must let the
 * requester push, unless it is the renamed one. @throws Refused (forbidden, unprocessable)
 */
function requireMayRename(
  { repository, access, requester }: Writer,
  { from, to }: { from: string; to: string },
): void {
  const { defaultBranch, protections } = repository
  const own = protectionOf(protections, from)
  const isNamed = own?.rule === from
  // The rules after the rename: a pattern may then come before the branch's own rule.
  const later = isNamed ? withProtection(protections, { ...own, rule: to }) : protections
  if (own !== undefined && !isNamed) {
    throw new Refused(
      refuse.forbidden(`${from} is protected by a rule for other names, too: it keeps its name`),
    )
  }
  if ((isNamed || from === defaultBranch) && access !== 'admin') {
    const reason = isNamed ? 'is protected' : 'is the default branch'
    throw new Refused(refuse.forbidden(`${from} ${reason}: only admins of the repository rename it`))
  }
  if (isNamed && protections.some(({ rule }) => rule === to)) {
    throw new Refused(refuse.unprocessable(`name: there is a branch protection with that name`))
  }
  if (isNamed && isPattern(to)) {
    const reason = 'the protection of the branch would be one of several names'
    throw new Refused(refuse.unprocessable(`name: has special characters of patterns, so ${reason}`))
  }
  const other = protectionOf(later, to)
  const isOwn = isNamed && other?.rule === to
  if (isOwn || mayPush(other, memberOf(repository, requester), access)) return
  throw new Refused(refuse.forbidden(`${to} is protected: the branch cannot be renamed`))
}

export const renameBranchRoutes: Routes = (services) => async (app) => {
  const { branches } = services.views
  app.patch(
    '/repos/:owner/:repo/branches/*',
    route('repository', {
      params: BranchParams,
      body: Type.Object({ name: Type.String() }, { title: 'UpdateBranchRepoOption' }),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'write')
      const requester = signedIn(request)
      const repoId = repository.id
      const names = { from: request.params['*'], to: request.body.name }
      /** Resolves to the tip of the branch. */
      async function requireBranch(): Promise<string> {
        const branch = await branches.get(branchId(repoId, names.from))
        if (branch === undefined) throw notFoundIn(branches, 'branch not found')
        return branch.commit.sha
      }
      await requireBranch()
      const problem = newBranchNameProblem(names.to)
      if (problem !== undefined) throw new Refused(refuse.unprocessable(`name: ${problem}`))
      requireMayRename({ repository, access, requester }, names)
      if ((await branches.get(branchId(repoId, names.to))) !== undefined) throw new Refused(taken)
      const context = commandContext(request)
      const outcome = await renameBranch(services, context, { repoId, ...names }, async () => {
        requireMayRename(await reauthorizeWriter(services, request, repoId), names)
        if ((await branches.get(branchId(repoId, names.to))) !== undefined) throw new Refused(taken)
        return await requireBranch()
      })
      if (outcome === 'name-conflict') throw new Refused(taken)
      if (outcome === 'stale') {
        throw new Refused(refuse.conflict('a push has moved the branch in the meantime'))
      }
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
