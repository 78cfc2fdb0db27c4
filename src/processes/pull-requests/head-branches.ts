/**
 * The process that deletes head branches after a crash. A merge deletes its head branch itself while it holds the lock,
 * but the server may die between the merge and the deletion.
 */
import { pulls } from '../../commands/execution/aggregates.ts'
import { deleteHeadBranch } from '../../commands/pull-requests/branches/delete-head-branch.ts'
import { unlessDeleted } from '../../commands/pull-requests/branches/move-heads.ts'
import { mergeLockKey } from '../../commands/pull-requests/finish-merge.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function headBranches(services: Services): ProcessManager {
  return processManager('head_branches', {
    async PullRequestMerged(context, { data: { repoId, index, mergedBy, deleteBranch } }) {
      if (!deleteBranch) return
      await services.runExclusive(mergeLockKey(repoId), async () => {
        const state = await pulls.load(services, { repoId, index })
        if (state.status !== 'merged' || state.headBranchDeleted || state.headBranchKept) return
        await deleteHeadBranch(services, context, state, mergedBy).catch(unlessDeleted)
      })
    },
  })
}
