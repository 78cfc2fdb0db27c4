/** The process that finishes transfers whose server has died: the teams of the old owner lose the repository, and those of the new one get it. */
import { giveToTeams } from '../commands/repositories/transferred-teams.ts'
import type { Services } from '../services.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

export function transfers(services: Services): ProcessManager {
  return processManager('transfers', {
    RepositoryTransferred: (context, { data, metadata: { at } }) =>
      giveToTeams(services, { ...context, at, actor: null }, data),
  })
}
