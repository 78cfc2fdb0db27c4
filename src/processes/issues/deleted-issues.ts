/**
 * The process that ends what others have of a deleted issue: its pin, the dependencies of other issues on it, reactions, and
 * who took part. A comment that came after the deletion, from a request that still saw the issue, is deleted.
 */

import { changeComment } from '../../commands/comments/change.ts'
import { decideDeleteComment } from '../../commands/comments/comment.decider.ts'
import { repositories } from '../../commands/execution/aggregates.ts'
import { eachOne } from '../../commands/execution/each-one.ts'
import { partOf } from '../../commands/execution/execute.ts'
import { changeDiscussion } from '../../commands/issues/change-discussion.ts'
import { decideRemoveDependency } from '../../commands/issues/discussion.decider.ts'
import { leftOfIssue, removeLeft } from '../../commands/repositories/left-documents.ts'
import { decideUnpin } from '../../commands/repositories/pins.decider.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import { isIssueStream } from '../../events/streams.ts'
import { sameIssue } from '../../projections/models/issues/discussion.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function deletedIssues(services: Services): ProcessManager {
  const { views } = services

  /** Most comments are of an issue that is there. The read models have passed the event. */
  async function concerns(event: Recorded<DomainEvent>): Promise<boolean> {
    if (event.type !== 'CommentAdded') return true
    const { repoId, index } = event.data
    if (!isIssueStream(event.stream) || (await views.issues.get(issueId(repoId, index))) !== undefined)
      return false
    // Of a deleted repository, another process removes what is left.
    return (await views.repositories.get(`${repoId}`)) !== undefined
  }

  return {
    ...processManager('deleted_issues', {
      async IssueDeleted(context, { data: { repoId, index } }) {
        const own = { ...context, actor: null }
        const deleted = { repoId, index }
        await repositories.change(services, own, repoId, 'unpin', (state) =>
          state.status === 'active' ? decideUnpin(state, { index, isPull: false }) : [],
        )
        const dependents = await views.issues.find({ dependencyKeys: issueId(repoId, index) })
        await eachOne(dependents, async (dependent) => {
          const { repoId, index } = dependent
          await changeDiscussion(services, partOf(own, issueId(repoId, index)), dependent, 'deleted', {
            issue: (discussion) =>
              discussion.dependencies.some((other) => sameIssue(other, deleted))
                ? decideRemoveDependency(discussion, deleted)
                : [],
          })
        })
        await removeLeft(services, own, repoId, leftOfIssue(index))
      },
      async CommentAdded(context, { data: { commentId } }) {
        const comment = await views.comments.get(`${commentId}`)
        if (comment === undefined) return
        const own = { ...context, actor: null }
        await changeComment(services, own, comment, 'deleted', (state) =>
          state.status === 'none' ? [] : decideDeleteComment(state),
        )
      },
    }),
    concerns,
  }
}
