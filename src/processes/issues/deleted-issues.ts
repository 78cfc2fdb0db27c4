/**
 * The process that cleans up after a deleted issue: its pin, dependencies of other issues on it, reactions and
 * participants. It also removes a comment, pin or dependency that a concurrent request added after the deletion.
 */

import { changeComment } from '../../commands/comments/change.ts'
import { decideDeleteComment } from '../../commands/comments/comment.decider.ts'
import { issues, repositories } from '../../commands/execution/aggregates.ts'
import { type CommandContext, partOf } from '../../commands/execution/command-context.ts'
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import { changeDiscussion } from '../../commands/issues/change-discussion.ts'
import { decideRemoveDependency } from '../../commands/issues/discussion.decider.ts'
import { orphansOfIssue, removeOrphanedDocuments } from '../../commands/repositories/orphaned-documents.ts'
import { decideUnpin } from '../../commands/repositories/pins.decider.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import { isIssueStream, isPullStream } from '../../events/streams.ts'
import { sameIssue } from '../../projections/models/issues/discussion.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function deletedIssues(services: Services): ProcessManager {
  const { views } = services

  /** Whether the issue was deleted and its repository still exists. The read models have passed the event. */
  async function isGone({ repoId, index }: IssueRef): Promise<boolean> {
    if ((await views.issues.get(issueId(repoId, index))) !== undefined) return false
    // Another process cleans up after a deleted repository.
    return (await views.repositories.get(`${repoId}`)) !== undefined
  }

  /** Whether the event came after a deletion, as few do. */
  async function concerns({ type, stream, data }: Recorded<DomainEvent>): Promise<boolean> {
    switch (type) {
      case 'CommentAdded':
        return isIssueStream(stream) && isGone(data)
      case 'DependencyAdded':
        return isGone(data.dependency)
      case 'PinsChanged':
        return !data.isPull && (await gonePins(data)).length > 0
      default:
        return true
    }
  }

  async function gonePins({ repoId, to }: { repoId: number; to: readonly number[] }): Promise<number[]> {
    const gone: number[] = []
    for (const index of to) if (await isGone({ repoId, index })) gone.push(index)
    return gone
  }

  async function unpin(context: CommandContext, { repoId, index }: IssueRef): Promise<void> {
    await repositories.change(services, context, repoId, 'unpin', (state) =>
      state.status === 'active' ? decideUnpin(state, { index, isPull: false }) : [],
    )
  }

  /** Removes the dependency of another issue or pull request on a deleted one. */
  async function unlink(
    context: CommandContext,
    dependent: IssueRef & { isPull: boolean },
    deleted: IssueRef,
  ): Promise<void> {
    await changeDiscussion(services, context, dependent, 'deleted', {
      issue: (discussion) =>
        discussion.dependencies.some((other) => sameIssue(other, deleted))
          ? decideRemoveDependency(discussion, deleted)
          : [],
    })
  }

  return {
    ...processManager('deleted_issues', {
      async IssueDeleted(context, { data: { repoId, index } }) {
        const own = { ...context, actor: null }
        const deleted = { repoId, index }
        await unpin(own, deleted)
        const dependents = await views.issues.find({ dependencyKeys: issueId(repoId, index) })
        await forEachSettled(dependents, (dependent) =>
          unlink(partOf(own, issueId(dependent.repoId, dependent.index)), dependent, deleted),
        )
        await removeOrphanedDocuments(services, own, repoId, orphansOfIssue(index))
      },
      async CommentAdded(context, { data: { repoId, index, commentId } }) {
        const comment = await views.comments.get(`${commentId}`)
        if (comment === undefined) return
        // The log decides: a read model may lack the document of an existing issue.
        if ((await issues.load(services, { repoId, index })).status !== 'none') return
        const own = { ...context, actor: null }
        await changeComment(services, own, comment, 'deleted', (state) =>
          state.status === 'none' ? [] : decideDeleteComment(state),
        )
      },
      async DependencyAdded(context, { stream, data: { repoId, index, dependency } }) {
        // The dependent issue may have been deleted too.
        if (await isGone({ repoId, index })) return
        await unlink({ ...context, actor: null }, { repoId, index, isPull: isPullStream(stream) }, dependency)
      },
      async PinsChanged(context, { data }) {
        for (const index of await gonePins(data)) {
          await unpin({ ...partOf(context, `${index}`), actor: null }, { repoId: data.repoId, index })
        }
      },
    }),
    concerns,
  }
}
