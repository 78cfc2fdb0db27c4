/** Memberships in organizations by the groups that a person has at the provider. */

import type { Person } from '../../../auth/sessions/openid-provider.ts'
import type { GroupGrant } from '../../../config/setting-kinds.ts'
import { Refused } from '../../../errors/refusal.ts'
import type { Permission } from '../../../events/catalog/organizations.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { Services, WriteServices } from '../../../services/services.ts'
import { organizations } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import type { Decision } from '../../execution/decider.ts'
import { hasId } from '../../execution/id-map.ts'
import {
  decideRemoveMember,
  decideSetMember,
  type OrganizationEvent,
  type OrganizationState,
} from '../../organizations/organization.decider.ts'

const RANK: Record<Permission, number> = { read: 1, write: 2, admin: 3 }

/** The permission in each organization that the grants name, by its login in lower case; undefined: no member. */
export function membershipsBy(
  grants: readonly GroupGrant[],
  groups: ReadonlySet<string>,
): Map<string, Permission | undefined> {
  const wanted = new Map<string, Permission | undefined>()
  for (const { group, organization, permission } of grants) {
    const key = organization.toLowerCase()
    const before = wanted.get(key)
    const isMore = groups.has(group) && (before === undefined || RANK[permission] > RANK[before])
    wanted.set(key, isMore ? permission : before)
  }
  return wanted
}

/** The provider decides, as a site admin would: the setting names the organization. */
const BY_SETTING = { id: 0, siteAdmin: true }

function decideMembership(
  state: OrganizationState,
  user: AccountRef,
  permission: Permission | undefined,
): Decision<OrganizationEvent> {
  // It may have been deleted just now: nobody signs in the worse for that.
  if (state.status !== 'active') return []
  if (permission !== undefined) return decideSetMember(state, BY_SETTING, user, permission)
  if (!hasId(state.members, user.id)) return []
  return decideRemoveMember(state, BY_SETTING, user)
}

/**
 * Gives the user the memberships of the person's groups, and ends those whose group is gone, in the organizations of the
 * setting only. The last admin of an organization stays, and what a setting names and nobody has made is passed over;
 * the log says so.
 */
export async function followGroups(
  services: WriteServices & Pick<Services, 'views' | 'config' | 'log'>,
  context: CommandContext,
  user: AccountRef,
  { groups }: Pick<Person, 'groups'>,
): Promise<void> {
  const { views, config, log } = services
  const { oidcOrganizations = [] } = config
  if (groups === undefined) {
    if (oidcOrganizations.length > 0)
      log.warn({ login: user.login }, 'the provider does not say which groups')
    return
  }
  for (const [organization, permission] of membershipsBy(oidcOrganizations, groups)) {
    const found = await views.accounts.findOne({ loginKey: organization })
    if (found?.kind !== 'organization') {
      log.warn({ organization }, 'OIDC_ORGANIZATIONS names an organization that does not exist')
      continue
    }
    try {
      await organizations.change(services, context, found.id, 'follow groups', (state) =>
        decideMembership(state, user, permission),
      )
    } catch (error) {
      if (!(error instanceof Refused) || error.refusal.refused !== 'unprocessable') throw error
      log.warn({ organization, login: user.login }, `the membership stays: ${error.message}`)
    }
  }
}
