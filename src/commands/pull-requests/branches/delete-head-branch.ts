/** Deletes the head branch of a merged pull request, if the merge requested that: `merge.8`. */

import { accessTo, atLeast } from '../../../access/access.ts'
import { archivedRefusal } from '../../../access/archived.ts'
import { protectionOf } from '../../../access/protection-rules.ts'
import { isRefusal, type Refusal, Refused, refuse } from '../../../errors/refusal.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { gitStream, idsStream } from '../../../events/streams.ts'
import { resolveRef } from '../../../git/refs/refs.ts'
import { branchKey } from '../../../projections/models/pull-requests/pulls.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { pulls } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { earlierResult } from '../../execution/idempotency.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { removeBranch } from '../../git/change-refs.ts'
import { type ActivePull, decideHeadBranchDeleted, decideHeadBranchKept } from '../pull-request.decider.ts'

/** A reason to keep the head branch that is not an error: the merge has succeeded, and the history shows the reason. */
interface Kept {
  kept: string
}

/**
 * Deletes the head branch and adds a comment, unless another open pull request has the same head branch. `by` is the user
 * of the merge. Records the reason when the branch is kept. Resolves to the refusals of `merge.8`: the branch is missing,
 * the default branch, or protected. Call it under the lock of merges. Idempotent.
 */
export async function deleteHeadBranch(
  services: Services,
  context: CommandContext,
  pull: ActivePull,
  by: AccountRef,
): Promise<Refusal | undefined> {
  const kept = await removeHead(services, context, pull, by)
  if (kept === undefined) await comment(services, context, pull)
  else if (kept !== missing) {
    const reason = isRefusal(kept) ? kept.message : kept.kept
    await logFailure(services, () =>
      pulls.change(services, context, pull, 'head branch kept', (state) =>
        decideHeadBranchKept(state, reason),
      ),
    )
  }
  return kept !== undefined && isRefusal(kept) ? kept : undefined
}

/** Deletes the branch. Resolves to the reason when it is kept. */
async function removeHead(
  services: Services,
  context: CommandContext,
  pull: ActivePull,
  by: AccountRef,
): Promise<Refusal | Kept | undefined> {
  const { repoId, branch, sha } = pull.head
  // An earlier attempt of the merge may have deleted it before a crash.
  if (await earlierResult(services, context, gitStream(repoId), 'branch-deletion')) return undefined
  // A pull request merged just before does not need the branch any more.
  await services.projector.waitFor(context.written, services.config.projectionWaitMs)
  const kept = await reasonToKeep(services, pull, by)
  if (kept !== undefined) return kept

  const tip = await resolveRef(gitDirOf(services, repoId), `refs/heads/${branch}`)
  if (tip === null) return missing
  if (tip !== sha) return pushedTo
  let meanwhile: Refusal | Kept | undefined
  try {
    const outcome = await removeBranch(services, context, pull.head, async () => {
      await services.projector.current()
      meanwhile = await reasonToKeep(services, pull, by)
      if (meanwhile !== undefined) throw new Refused(missing)
    })
    return outcome === 'moved' ? undefined : pushedTo
  } catch (error) {
    if (error instanceof Refused && meanwhile !== undefined) return meanwhile
    if (error instanceof Refused) return error.refusal
    throw error
  }
}

/**
 * Returns the reason to keep the head branch by the present permissions and rules; undefined when it may be deleted.
 */
async function reasonToKeep(
  { views }: Services,
  pull: ActivePull,
  by: AccountRef,
): Promise<Refusal | Kept | undefined> {
  const { repoId, branch } = pull.head
  const [repository, merger] = await Promise.all([
    views.repositories.get(`${repoId}`),
    views.accounts.get(`${by.id}`),
  ])
  if (repository === undefined || merger === undefined) return missing
  if (!atLeast(accessTo(repository, merger), 'write')) {
    return { kept: 'the user who merged may not write to the repository of the branch' }
  }
  if (repository.archived) return { kept: archivedRefusal.message }
  if (branch === repository.defaultBranch) {
    return refuse.forbidden('the head branch is the default branch, which cannot be deleted')
  }
  if (protectionOf(repository.protections, branch) !== undefined) {
    return refuse.forbidden('the head branch is protected and cannot be deleted')
  }
  const heads = { headKey: branchKey(repoId, branch), status: 'open' } as const
  const others = await views.pulls.find(heads, { limit: 2 })
  return others.some(({ id }) => id !== pull.id)
    ? { kept: 'another open pull request has the same head branch' }
    : undefined
}

const pushedTo: Kept = { kept: 'the branch was pushed to after the merge' }
const missing = refuse.notFound('the head branch does not exist any more')

const comment = (services: Services, context: CommandContext, pull: ActivePull) =>
  logFailure(services, async () => {
    const commentId = await takeNumber(services, context, idsStream('comment'))
    await pulls.change(services, context, pull, 'head branch deleted', (state) =>
      decideHeadBranchDeleted(state, commentId),
    )
  })

/** Records the outcome. A failure is only logged, since the merge has succeeded. */
async function logFailure(services: Services, record: () => Promise<unknown>): Promise<void> {
  await record().catch((error: unknown) =>
    services.log.warn({ err: error }, 'cannot record the outcome of a head branch'),
  )
}
