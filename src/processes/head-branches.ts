/**
 * The process that deletes head branches after a crash. A merge deletes its head branch itself, in its turn, so
 * normally nothing is left to do here. But the server may die between the merge and the deletion.
 */
import { load } from '../commands/execute.ts'
import { deleteHeadBranch } from '../commands/pull-requests/delete-head-branch.ts'
import { mergeTurn } from '../commands/pull-requests/finish-merge.ts'
import { pullDecider } from '../commands/pull-requests/pull-request.ts'
import { pullStream } from '../events/streams.ts'
import { RepositoryMissing } from '../git/errors.ts'
import type { Services } from '../services.ts'
import { inTurn } from '../turns.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

export function headBranches(services: Services): ProcessManager {
  return processManager('head_branches', {
    async PullRequestMerged(context, { data: { repoId, index, mergedBy, deleteBranch } }) {
      if (!deleteBranch) return
      await inTurn(mergeTurn(repoId), async () => {
        const { state } = await load(services.events, pullStream(repoId, index), pullDecider)
        if (state.status !== 'merged' || state.headBranchDeleted) return
        try {
          await deleteHeadBranch(services, context, state, mergedBy)
        } catch (error) {
          if (!(error instanceof RepositoryMissing)) throw error
        }
      })
    },
  })
}
