/**
 * Deletes head branches that a merge was to delete and that are still there: the process that merged has died
 * in between. While it lives it does so itself, in the merge's turn, and nothing is left to do here.
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
