/** Ends assignments of users who have lost write access: `issues.create.3`. */

import { accessTo, atLeast } from '../../access/access.ts'
import { repoIdIn } from '../../projections/models/issues/issue-selection.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { forEachSettled } from '../execution/for-each-settled.ts'
import { changeDiscussion } from './change-discussion.ts'
import { decideEditDiscussion } from './discussion.decider.ts'

/** Number of documents in memory at one time. */
const CHUNK = 200

/** Returns whether a user may be assigned in a repository. */
export const mayBeAssigned = (repository: RepositoryDocument, user: AccountDocument | undefined) =>
  user !== undefined && !user.deleted && atLeast(accessTo(repository, user), 'write')

/**
 * Ends the assignments of a user, as the server itself, wherever the user may not write. `within`: limits it to these
 * repositories. Idempotent.
 */
export async function endAssignments(
  services: Services,
  context: CommandContext,
  userId: number,
  within?: ReadonlySet<string>,
): Promise<void> {
  const { accounts, issues, repositories } = services.views
  const isWithin = (id: string) => within === undefined || within.has(`${repoIdIn(id)}`)
  const ids = (await issues.ids({ assigneeIds: userId })).filter(isWithin)
  if (ids.length === 0) return
  const user = await accounts.get(`${userId}`)
  const places = await repositories.getMany([...new Set(ids.map((id) => `${repoIdIn(id)}`))])
  const lost = new Set(places.filter((repository) => !mayBeAssigned(repository, user)).map(({ id }) => id))
  const ended = ids.filter((id) => lost.has(repoIdIn(id)))
  for (let i = 0; i < ended.length; i += CHUNK) {
    await forEachSettled(await issues.getMany(ended.slice(i, i + CHUNK)), async (issue) => {
      await changeDiscussion(services, { ...context, actor: null }, issue, `unassign ${userId}`, {
        issue: (discussion) =>
          decideEditDiscussion(discussion, {
            assignees: discussion.assignees.filter(({ id }) => id !== userId),
          }),
      })
    })
  }
}
