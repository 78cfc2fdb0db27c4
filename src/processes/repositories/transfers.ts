/** The process that finishes transfers after a crash: it releases the old name, and updates the owner's teams. */
import { releaseOldName } from '../../commands/repositories/move.ts'
import { giveToTeams } from '../../commands/repositories/ownership/transferred-teams.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function transfers(services: Services): ProcessManager {
  return processManager('transfers', {
    async RepositoryTransferred(context, { data, metadata: { at } }) {
      const own = { ...context, actor: null }
      await releaseOldName(services, own, data.repoId, { ownerId: data.from.id, name: data.name })
      await giveToTeams(services, { ...own, at }, data)
    },
    async RepositoryRenamed(context, { data: { repoId, owner, from } }) {
      await releaseOldName(services, { ...context, actor: null }, repoId, { ownerId: owner.id, name: from })
    },
  })
}
