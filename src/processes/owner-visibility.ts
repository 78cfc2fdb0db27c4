/**
 * The process that keeps in each repository who may see its owner. A new repository has it from the start; one that was
 * made by an older version, or while its organization changed, gets it here.
 */
import { repositories } from '../commands/aggregates.ts'
import { decideOwnerVisibility } from '../commands/repositories/repository.ts'
import type { Services } from '../services.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

export function ownerVisibility(services: Services): ProcessManager {
  const { accounts, repositories: documents } = services.views

  return processManager('owner_visibility', {
    async RepositoryCreated(context, { data: { repoId, owner } }) {
      if (owner.kind !== 'organization') return
      const [organization, repository] = await Promise.all([
        accounts.get(`${owner.id}`),
        documents.get(`${repoId}`),
      ])
      if (organization === undefined || repository === undefined) return
      const { visibility } = organization
      if (repository.ownerVisibility === visibility) return
      await repositories.change(services, { ...context, actor: null }, repoId, 'owner visibility', (state) =>
        decideOwnerVisibility(state, visibility),
      )
    },
  })
}
