/**
 * The process that sets git's default branch after a crash. A request sets it right after its event, but the server may
 * die between the two.
 */
import { repositories } from '../../commands/execution/aggregates.ts'
import { withRefLock } from '../../commands/git/ref-lock.ts'
import { unlessDeleted } from '../../commands/pull-requests/branches/move-heads.ts'
import { setDefaultBranch } from '../../git/repository/repository.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function defaultBranches(services: Services): ProcessManager {
  return processManager('default_branches', {
    async RepositoryEdited(_, { data: { repoId, changes } }) {
      if (changes.defaultBranch === undefined) return
      await withRefLock(services, repoId, async () => {
        const state = await repositories.load(services, repoId)
        if (state.status !== 'active') return
        await setDefaultBranch(gitDirOf(services, repoId), state.settings.defaultBranch)
      }).catch(unlessDeleted)
    },
  })
}
