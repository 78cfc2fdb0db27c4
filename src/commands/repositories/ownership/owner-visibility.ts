/** Hides repositories when their organization, or the repository that they were forked from, is hidden. */

import { awaitPermissions } from '../../../access/await-permissions.ts'
import { isOpenTo } from '../../../access/visibility.ts'
import type { Visibility } from '../../../events/catalog/organizations.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../../services/services.ts'
import { organizations, repositories } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { forEachSettled } from '../../execution/for-each-settled.ts'
import { currentVisibility } from '../../organizations/current-visibility.ts'
import { withOrganizationLock } from '../../organizations/organization-lock.ts'
import { decideEndHiding, repositoryVisibility, widerThan } from '../../organizations/visibility.ts'
import { decideEdit, decideOwnerVisibility, openness } from '../repository.decider.ts'

/** Number of repositories that are changed concurrently. */
const CONCURRENT_CHANGES = 32

/** Records the present visibility of an organization in its repositories, where it differs. */
export async function recordOwnerVisibility(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<void> {
  const organization = await organizations.load(services, organizationId)
  if (organization.status !== 'active') return
  // Only ids: thousands of documents would block the event loop.
  const owned = await services.views.repositories.ids({ ownerId: organizationId })
  await recordVisibilityIn(services, context, owned, repositoryVisibility(organization))
}

/**
 * Runs `work`, which gives the owner a repository and records the owner's visibility (`currentVisibility`), under the
 * lock that hiding an organization takes. A suspended node may have lost the lock, so it checks again; after a crash
 * the process `owner_visibility` does.
 */
export async function withOwnerVisibility<T>(
  services: Services,
  context: CommandContext,
  owner: AccountDocument,
  repoId: number,
  work: () => Promise<T>,
): Promise<T> {
  if (owner.kind === 'user') return work()
  return withOrganizationLock(services, owner.id, async () => {
    const made = await work()
    await hideLikeOwner(services, context, owner, repoId)
    return made
  })
}

/** Hides an organization's repository from users who may not see the organization now. Never widens the visibility. */
export async function hideLikeOwner(
  services: Services,
  context: CommandContext,
  owner: Pick<AccountDocument, 'id' | 'kind' | 'visibility'>,
  repoId: number,
): Promise<void> {
  if (owner.kind === 'user') return
  const now = await currentVisibility(services, owner)
  if (now === 'public') return
  await repositories.change(services, { ...context, actor: null }, repoId, 'hide as owner', (state) => {
    const isShown =
      state.status === 'active' &&
      state.owner.id === owner.id &&
      widerThan(now).includes(state.ownerVisibility)
    return isShown ? decideOwnerVisibility(state, now) : []
  })
}

async function recordVisibilityIn(
  services: Services,
  context: CommandContext,
  ids: readonly string[],
  visibility: Visibility,
): Promise<void> {
  await forEachSettled(
    ids.map(Number),
    async (id) => {
      await repositories.change(services, context, id, `owner visibility ${id}`, (state) =>
        decideOwnerVisibility(state, visibility),
      )
    },
    CONCURRENT_CHANGES,
  )
}

/**
 * Hides the repositories of an organization before the organization itself, so that they are never more visible than
 * it. Call it under the organization's lock. Returns whether there was something to hide.
 */
export async function hideRepositories(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<boolean> {
  const organization = await organizations.load(services, organizationId)
  if (organization.status !== 'active' || organization.hidesTo === null) return false
  await recordOwnerVisibility(services, context, organizationId)
  // The organization may have received repositories meanwhile.
  await awaitPermissions(services)
  const wider = { ownerId: organizationId, ownerVisibility: { $in: widerThan(organization.hidesTo) } }
  const ids = await services.views.repositories.ids(wider)
  await recordVisibilityIn(services, context, ids, organization.hidesTo)
  return true
}

/** Finishes an interrupted `HidingStarted`. Call it under the organization's lock. */
export async function finishHiding(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<void> {
  if (!(await hideRepositories(services, context, organizationId))) return
  await organizations.change(services, context, organizationId, 'end hiding', decideEndHiding)
}

/** Returns whether a repository is hidden from anyone. Then its forks are private. */
export async function isHidden(services: Services, repoId: number): Promise<boolean> {
  const state = await repositories.load(services, repoId)
  return state.status === 'none' || !isOpenTo(openness(state), null)
}

/** Makes a fork private if its base was hidden meanwhile. */
export async function hideFork(
  services: Services,
  context: CommandContext,
  { baseId, repoId }: { baseId: number; repoId: number },
): Promise<void> {
  if (await isHidden(services, baseId)) await makePrivate(services, context, repoId, baseId)
}

async function makePrivate(
  services: Services,
  context: CommandContext,
  repoId: number,
  baseId: number,
): Promise<void> {
  await repositories.change(services, context, repoId, `hide fork of ${baseId}`, (state) =>
    state.status === 'active' ? decideEdit(state, { private: true }, false) : [],
  )
}

/**
 * Makes the forks of a repository private, as in Gitea, unless it is public now. Their forks follow by the event. Never
 * makes one public: a fork may have its own commits.
 */
export async function hideForksOf(
  services: Services,
  context: CommandContext,
  repoId: number,
): Promise<void> {
  const parent = await repositories.load(services, repoId)
  if (parent.status !== 'active' || isOpenTo(openness(parent), null)) return
  const shown = await services.views.repositories.ids({ parentId: repoId, private: false })
  await forEachSettled(shown.map(Number), (id) => makePrivate(services, context, id, repoId))
}
