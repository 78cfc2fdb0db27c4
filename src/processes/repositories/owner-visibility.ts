/**
 * The process that keeps the owner's visibility in each repository, and hides the forks of hidden repositories. It also
 * updates a repository that was created while its organization changed.
 */
import { organizations, repositories } from '../../commands/execution/aggregates.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { withOrganizationLock } from '../../commands/organizations/organization-lock.ts'
import { repositoryVisibility } from '../../commands/organizations/visibility.ts'
import {
  finishHiding,
  hideFork,
  hideForksOf,
  hideLikeOwner,
  recordOwnerVisibility,
} from '../../commands/repositories/ownership/owner-visibility.ts'
import { decideOwnerVisibility } from '../../commands/repositories/repository.decider.ts'
import type { AccountKind } from '../../events/catalog/organizations.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function ownerVisibility(services: Services): ProcessManager {
  const { repositories: documents } = services.views

  /** Records the owner's visibility, unless the repository has it or has another owner now. */
  async function updateOwnerVisibility(
    context: CommandContext,
    { repoId, owner }: { repoId: number; owner: { id: number; kind: AccountKind } },
  ): Promise<void> {
    if (owner.kind !== 'organization') return
    const repository = await documents.get(`${repoId}`)
    if (repository?.ownerId !== owner.id) return
    const visibility = async () => {
      const organization = await organizations.load(services, owner.id)
      return organization.status === 'active'
        ? repositoryVisibility(organization)
        : repository.ownerVisibility
    }
    if (repository.ownerVisibility === (await visibility())) return
    await withOrganizationLock(services, owner.id, async () => {
      const now = await visibility()
      await repositories.change(services, { ...context, actor: null }, repoId, 'owner visibility', (state) =>
        state.status === 'active' && state.owner.id === owner.id ? decideOwnerVisibility(state, now) : [],
      )
    })
  }

  async function hideWithOwner(context: CommandContext, repoId: number): Promise<void> {
    const repository = await documents.get(`${repoId}`)
    if (repository === undefined) return
    const { ownerId: id, ownerKind: kind, ownerVisibility } = repository
    await hideLikeOwner(services, context, { id, kind, visibility: ownerVisibility }, repoId)
  }

  return processManager('owner_visibility', {
    async RepositoryCreated(context, { data }) {
      await updateOwnerVisibility(context, data)
      const { repoId, parent } = data
      // The fork was made while its base was being hidden.
      if (parent !== undefined && !data.private)
        await hideFork(services, context, { baseId: parent.repoId, repoId })
    },
    async RepositoryTransferred(context, { data }) {
      await updateOwnerVisibility(context, data)
      if (data.ownerVisibility !== 'public') await hideForksOf(services, context, data.repoId)
    },
    async HidingStarted(context, { data: { organization } }) {
      await withOrganizationLock(services, organization.id, () =>
        finishHiding(services, context, organization.id),
      )
    },
    async OrganizationEdited(context, { data: { organization, changes } }) {
      if (changes.visibility === undefined) return
      await withOrganizationLock(services, organization.id, () =>
        recordOwnerVisibility(services, context, organization.id),
      )
    },
    async RepositoryEdited(context, { data: { repoId, changes } }) {
      if (changes.private === true) await hideForksOf(services, context, repoId)
    },
    async OwnerVisibilityChanged(context, { data: { repoId, visibility } }) {
      if (visibility !== 'public') await hideForksOf(services, context, repoId)
      // A suspended node may have recorded the visibility before the organization was hidden.
      if (visibility !== 'private') await hideWithOwner(context, repoId)
    },
  })
}
