/** Renames a branch: `PATCH /repos/{owner}/{repo}/branches/{branch}`. */
import { Type } from 'typebox'
import type { ExpectedRevision } from '../../events/event-store.ts'
import { newBranchNameProblem } from '../../git/names.ts'
import { updateRefs } from '../../git/refs.ts'
import { branchId } from '../../projections/branches.ts'
import { branchKey } from '../../projections/pulls.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { notFoundIn } from '../../projections/view.ts'
import { Refused, refuse } from '../../refusal.ts'
import { protectionOf } from '../../rights/protection-rules.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { BranchParams } from '../../wire/branches.ts'
import { moveRefs } from '../git/change-refs.ts'
import { recordRefs } from '../git/record-refs.ts'
import { writerNow } from '../git/writer-now.ts'
import { commandContext, settled } from '../request-context.ts'

/**
 * Refuses to rename what other things name: the default branch, a protected branch, and the head or base of a pull
 * request that is not merged. Gitea renames these with the branch.
 *
 * @throws Refused (forbidden, unprocessable)
 */
async function requireUnused(
  { views }: Services,
  repository: RepositoryDocument,
  from: string,
  to: string,
): Promise<void> {
  if (from === repository.defaultBranch) {
    throw new Refused(
      refuse.unprocessable('the default branch cannot be renamed: make another one the default first'),
    )
  }
  for (const name of [from, to]) {
    if (protectionOf(repository.protections, name) === undefined) continue
    throw new Refused(refuse.forbidden(`${name} is protected: the branch cannot be renamed`))
  }
  const key = branchKey(repository.id, from)
  const unmerged = { status: { $in: ['open', 'closed'] } } as const
  const found = await Promise.all([
    views.pulls.findOne({ headKey: key, ...unmerged }),
    views.pulls.findOne({ baseKey: key, ...unmerged }),
  ])
  const pull = found.find((each) => each !== undefined)
  if (pull === undefined) return
  throw new Refused(
    refuse.unprocessable(
      pull.repoId === repository.id
        ? `the branch cannot be renamed: pull request #${pull.index} is not merged yet`
        : 'the branch cannot be renamed: a pull request in another repository is not merged yet',
    ),
  )
}

export const renameBranchRoutes: Routes = (services) => async (app) => {
  const { branches } = services.views
  app.patch(
    '/repos/:owner/:repo/branches/*',
    route('repository', {
      params: BranchParams,
      body: Type.Object({ name: Type.String() }),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const from = request.params['*']
      const { name: to } = request.body
      const branch = await branches.get(branchId(repository.id, from))
      if (branch === undefined) throw notFoundIn(branches, 'branch not found')
      const problem = newBranchNameProblem(to)
      if (problem !== undefined) throw new Refused(refuse.unprocessable(`name: ${problem}`))
      await requireUnused(services, repository, from, to)
      const context = commandContext(request)
      const { sha } = branch.commit
      const changes = [
        { ref: `refs/heads/${from}`, from: sha, to: null },
        { ref: `refs/heads/${to}`, from: null, to: sha },
      ]
      const rename = async (since: ExpectedRevision) => {
        // git makes both changes or none. One event has both.
        const moved = await updateRefs(gitDirOf(services, repository.id), changes)
        const recorded = moved === 'moved' ? changes : []
        await recordRefs(services, context, repository.id, 'branch-rename', recorded, since)
        return moved
      }
      const outcome = await moveRefs(services, repository.id, rename, async () => {
        const now = await writerNow(services, request, repository.id)
        await requireUnused(services, now.repository, from, to)
      })
      if (outcome !== 'moved') {
        const isTaken =
          outcome === 'name-conflict' || (await branches.get(branchId(repository.id, to))) !== undefined
        throw new Refused(
          isTaken
            ? refuse.unprocessable('name: there is a branch with that name, or its path has that name')
            : refuse.conflict('a push has moved the branch in the meantime'),
        )
      }
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
