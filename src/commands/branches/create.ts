/** Creates a branch: `POST /repos/{owner}/{repo}/branches`. */
import { Type } from 'typebox'
import { mayPush, protectionOf } from '../../access/protection-rules.ts'
import { onRepository } from '../../access/repository-access.ts'
import { memberOf } from '../../access/team-membership.ts'
import { BranchWire, branchWire } from '../../api/branches/branches.ts'
import { requireServed, servedCommitOf } from '../../api/contents/reached-objects.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { newBranchNameProblem } from '../../git/refs/names.ts'
import { tagId } from '../../projections/models/tags/tags.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { changeRef } from '../git/change-refs.ts'
import { reauthorizeWriter, type Writer } from '../git/reauthorize-writer.ts'

/** @throws Refused (forbidden) */
export function requireMayPush({ repository, access, requester }: Writer, branch: string): void {
  const protection = protectionOf(repository.protections, branch)
  if (mayPush(protection, memberOf(repository, requester), access)) return
  throw new Refused(
    coded('branch_protected', refuse.forbidden('the branch is protected: you may not push to it')),
  )
}

/**
 * Checks the permissions for a new branch. A rule for signed commits concerns commits new to the repository, and a new
 * branch brings none. @throws Refused (forbidden; conflict with a tag)
 */
async function requireAllowed(services: Services, writer: Writer, name: string): Promise<void> {
  const { id: repoId } = writer.repository
  requireMayPush(writer, name)
  if ((await services.views.tags.get(tagId(repoId, name))) !== undefined) {
    throw new Refused(coded('tag_exists', refuse.conflict('new_branch_name: there is a tag with that name')))
  }
}

export const createBranchRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/branches',
    route('repository', {
      params: RepositoryParams,
      body: Type.Object(
        {
          new_branch_name: Type.String(),
          old_ref_name: Type.Optional(
            Type.String({ description: 'Branch, tag or commit; default: the default branch' }),
          ),
          old_branch_name: Type.Optional(Type.String({ description: 'Older name of old_ref_name' })),
        },
        { title: 'CreateBranchRepoOption' },
      ),
      response: { 201: BranchWire },
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'write')
      const requester = signedIn(request)
      const { new_branch_name: name, old_ref_name: ref, old_branch_name: older } = request.body
      const problem = newBranchNameProblem(name)
      if (problem !== undefined) throw new Refused(refuse.unprocessable(`new_branch_name: ${problem}`))
      requireMayPush({ repository, access, requester }, name)
      const caller = { request, reply }
      const to = await servedCommitOf(services, caller, repository, ref || older || repository.defaultBranch)
      const context = commandContext(request)
      const change = { ref: `refs/heads/${name}`, from: null, to }
      const outcome = await changeRef(
        services,
        context,
        repository.id,
        'branch-creation',
        change,
        async () => {
          const writer = await reauthorizeWriter(services, request, repository.id)
          await requireAllowed(services, writer, name)
          await requireServed(services, caller, repository, to)
        },
      )
      if (outcome === 'stale') {
        throw new Refused(
          coded('branch_exists', refuse.conflict('new_branch_name: there is a branch with that name')),
        )
      }
      if (outcome === 'name-conflict') {
        const why = `the name of another branch begins with ${name}/, or is the beginning of it`
        throw new Refused(refuse.conflict(`new_branch_name: ${why}`))
      }
      await settled(services, context, reply)
      const commit = (await commitFacts(gitDirOf(services, repository.id), [to])).get(to)
      if (commit === undefined) throw new Refused(refuse.notFound('branch not found'))
      const { signed, ...facts } = commit
      const branch = { repoId: repository.id, name, commit: { ...facts, ...(signed && { isSigned: true }) } }
      return reply.code(201).send(branchWire(branch, repository, { requester, access }, services.publicUrl()))
    },
  )
}
