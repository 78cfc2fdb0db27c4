/** What follows for repositories when an organization, or the repository that they are a fork of, is shown to fewer. */

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
import { decideEndHiding, shownTo, widerThan } from '../../organizations/visibility.ts'
import { decideEdit, decideOwnerVisibility, hiddenness } from '../repository.decider.ts'

/** So many repositories are written at one time. */
const AT_ONCE = 32

/** Records in the repositories of an organization who may see it now. Those that know it already stay as they are. */
export async function recordOwnerVisibility(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<void> {
  const organization = await organizations.load(services, organizationId)
  if (organization.status !== 'active') return
  // The documents of thousands would be read in one turn.
  const owned = await services.views.repositories.ids({ ownerId: organizationId })
  await recordIn(services, context, owned, shownTo(organization))
}

/**
 * Runs `work`, which makes a repository the owner's and records who may see the owner: as `currentVisibility` says it then. An
 * organization does not begin to be hidden meanwhile: that has the same turn. A node that stood still may have lost the turn
 * without knowing, so it looks again; after a crash the process `owner_visibility` does it.
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

/** Hides an organization's repository from those who may not see the organization now. It is never shown to more by this. */
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

async function recordIn(
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
    AT_ONCE,
  )
}

/**
 * Hides the repositories of an organization that is to be hidden, before it is: so at no moment a repository is shown to
 * somebody who may not see its organization. To be called in the turn of the organization. Returns whether there was
 * something to hide.
 */
export async function hideRepositories(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<boolean> {
  const organization = await organizations.load(services, organizationId)
  if (organization.status !== 'active' || organization.hidesTo === null) return false
  await recordOwnerVisibility(services, context, organizationId)
  // Some may have come meanwhile.
  await awaitPermissions(services)
  const wider = { ownerId: organizationId, ownerVisibility: { $in: widerThan(organization.hidesTo) } }
  await recordIn(services, context, await services.views.repositories.ids(wider), organization.hidesTo)
  return true
}

/** Ends what `HidingStarted` has begun, if it was cut off. To be called in the turn of the organization. */
export async function finishHiding(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<void> {
  if (!(await hideRepositories(services, context, organizationId))) return
  await organizations.change(services, context, organizationId, 'end hiding', decideEndHiding)
}

/** Whether a repository is hidden from anyone now: then its forks are private. */
export async function isHidden(services: Services, repoId: number): Promise<boolean> {
  const state = await repositories.load(services, repoId)
  return state.status === 'none' || !isOpenTo(hiddenness(state), null)
}

/** Makes a fork private that was made while its base was being hidden. */
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
 * Makes the forks of a repository private, as in Gitea, unless everybody may see the repository now. Their own forks
 * follow when the log has this. Nothing is ever made public by this: a fork may have commits of its own.
 */
export async function hideForksOf(
  services: Services,
  context: CommandContext,
  repoId: number,
): Promise<void> {
  const parent = await repositories.load(services, repoId)
  if (parent.status !== 'active' || isOpenTo(hiddenness(parent), null)) return
  const shown = await services.views.repositories.ids({ parentId: repoId, private: false })
  await forEachSettled(shown.map(Number), (id) => makePrivate(services, context, id, repoId))
}
