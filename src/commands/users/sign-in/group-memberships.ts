/** Derives memberships in organizations from a person's groups at the provider. */

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

/** Returns the permission in each organization of the grants, by login in lower case; undefined for no membership. */
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

/** The actor of these changes: a setting names the organization, so it has the permissions of a site admin. */
const BY_SETTING = { id: 0, siteAdmin: true }

function decideMembership(
  state: OrganizationState,
  user: AccountRef,
  permission: Permission | undefined,
): Decision<OrganizationEvent> {
  // The organization may just have been deleted; the sign-in continues.
  if (state.status !== 'active') return []
  if (permission !== undefined) return decideSetMember(state, BY_SETTING, user, permission)
  if (!hasId(state.members, user.id)) return []
  return decideRemoveMember(state, BY_SETTING, user)
}

/**
 * Sets the memberships of the person's groups and ends others, in the organizations of the setting only. Skips, with a
 * log line, the last admin of an organization and organizations that do not exist.
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
    if (oidcOrganizations.length > 0) log.warn({ login: user.login }, 'the provider sends no groups')
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
