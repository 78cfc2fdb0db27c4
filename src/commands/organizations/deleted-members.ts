/** Removes a user who is being deleted, or is deleted, from an organization. */

import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { organizations } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { hasId } from '../execution/id-map.ts'
import { isBeingDeleted } from '../users/accounts/deletion.ts'
import { decideRemoveMember, isLastAdmin } from './organization.decider.ts'
import { decideLeaveTeams } from './team.decider.ts'

/** Ends a membership, if any. The last admin stays even when deleted: an organization needs one. */
export async function removeDeletedMember(
  services: Services,
  context: CommandContext,
  organizationId: number,
  user: AccountRef,
): Promise<void> {
  await organizations.change(
    services,
    { ...context, actor: null },
    organizationId,
    'remove ghost',
    (state) => {
      if (state.status !== 'active' || !hasId(state.members, user.id)) return []
      return isLastAdmin(state.members, user.id)
        ? []
        : decideRemoveMember(state, { id: user.id, siteAdmin: false }, user)
    },
  )
}

/** Removes the user from all teams of an organization. */
export async function leaveTeams(
  services: WriteServices,
  context: CommandContext,
  organizationId: number,
  user: AccountRef,
): Promise<void> {
  await organizations.change(services, { ...context, actor: null }, organizationId, 'leave teams', (state) =>
    decideLeaveTeams(state, user),
  )
}

/** Returns the organizations of these teams, each once. */
export const organizationsIn = (teams: Readonly<Record<string, { organizationId: number }>>) =>
  new Set(Object.values(teams).map(({ organizationId }) => organizationId))

/** Checks that a new member is not being deleted; otherwise removes the member. @throws Refused (conflict) then */
export async function requireMemberStays(
  services: Services,
  context: CommandContext,
  organizationId: number,
  user: AccountRef,
): Promise<void> {
  if (!(await isBeingDeleted(services, { id: user.id, kind: 'user' }))) return
  await removeDeletedMember(services, context, organizationId, user)
  await leaveTeams(services, context, organizationId, user)
  throw new Refused(refuse.conflict(`the account ${user.login} is being deleted`))
}
