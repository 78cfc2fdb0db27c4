/** Deletes the head branch of a merged pull request, when the merge asked for that: merge rule 8. */
import type { AccountRef } from '../../events/domain-events.ts'
import { gitStream, idsStream } from '../../events/streams.ts'
import { resolveRef } from '../../git/refs.ts'
import { branchKey } from '../../projections/pulls.ts'
import { type Refusal, Refused, refuse } from '../../refusal.ts'
import { accessTo, atLeast } from '../../rights/access.ts'
import { archivedRefusal } from '../../rights/archived.ts'
import { protectionOf } from '../../rights/protection-rules.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { pulls } from '../aggregates.ts'
import { type CommandContext, doneBefore } from '../execute.ts'
import { removeBranch } from '../git/change-refs.ts'
import { takeNumber } from '../sequences.ts'
import { type ActivePull, decideHeadBranchDeleted } from './pull-request.ts'

/**
 * Deletes the head branch and comments on that, unless another open pull request has the same head branch. `by`:
 * the user who merged. Resolves to the reason when the branch could not be deleted. Runs in the turn of the merge, and
 * may run again.
 */
export async function deleteHeadBranch(
  services: Services,
  context: CommandContext,
  pull: ActivePull,
  by: AccountRef,
): Promise<Refusal | undefined> {
  const { repoId, branch, sha } = pull.head
  // An earlier attempt of the same merge may have deleted it, and died then.
  if (await doneBefore(services.events, context, gitStream(repoId), 'branch-deletion')) {
    await comment(services, context, pull)
    return undefined
  }
  // A pull request that was merged just before does not use the branch any more.
  await services.projector.waitFor(context.written, services.config.projectionWaitMs)
  const kept = await whyKept(services, pull, by)
  if (kept !== undefined) return kept === 'in use' ? undefined : kept

  const tip = await resolveRef(gitDirOf(services, repoId), `refs/heads/${branch}`)
  if (tip === null) return missing
  if (tip !== sha) return pushedTo
  try {
    const outcome = await removeBranch(services, context, pull.head, async () => {
      await services.projector.current()
      const meanwhile = await whyKept(services, pull, by)
      if (meanwhile !== undefined) throw new Refused(meanwhile === 'in use' ? inUse : meanwhile)
    })
    if (outcome !== 'moved') return pushedTo
  } catch (error) {
    if (error instanceof Refused) return error.refusal === inUse ? undefined : error.refusal
    throw error
  }
  await comment(services, context, pull)
  return undefined
}

/** Why the head branch must stay by the rights and rules of now; undefined when it may go. */
async function whyKept(
  { views }: Services,
  pull: ActivePull,
  by: AccountRef,
): Promise<Refusal | 'in use' | undefined> {
  const { repoId, branch } = pull.head
  const [repository, merger] = await Promise.all([
    views.repositories.get(`${repoId}`),
    views.accounts.get(`${by.id}`),
  ])
  if (repository === undefined || merger === undefined) return missing
  if (!atLeast(accessTo(repository, merger), 'write')) {
    return refuse.forbidden('you may not delete the head branch')
  }
  if (repository.archived) return archivedRefusal
  if (branch === repository.defaultBranch) {
    return refuse.forbidden('the head branch is the default branch, which cannot be deleted')
  }
  if (protectionOf(repository.protections, branch) !== undefined) {
    return refuse.forbidden('the head branch is protected and cannot be deleted')
  }
  const heads = { headKey: branchKey(repoId, branch), status: 'open' } as const
  const others = await views.pulls.find(heads, { limit: 2 })
  return others.some(({ id }) => id !== pull.id) ? 'in use' : undefined
}

const inUse = refuse.conflict('another open pull request has the same head branch')
const pushedTo = refuse.conflict('the head branch was pushed to after the merge, so it is kept')
const missing = refuse.notFound('the head branch does not exist any more')

/** Adds the comment on the deletion. When that fails, the merge has still succeeded. */
async function comment(services: Services, context: CommandContext, pull: ActivePull): Promise<void> {
  try {
    const commentId = await takeNumber(services.events, context, idsStream('comment'))
    await pulls.change(services, context, pull, 'head branch deleted', (state) =>
      decideHeadBranchDeleted(state, commentId),
    )
  } catch (error) {
    services.log.warn({ err: error }, 'the comment on the deletion of a head branch failed')
  }
}
