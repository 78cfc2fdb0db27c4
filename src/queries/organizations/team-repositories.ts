/** The repositories that a team has, as a part of a filter. */

import { isMemberOf } from '../../access/visibility.ts'
import type { Team } from '../../api/organizations/teams.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'

/** Repositories of a team: all of its organization, or added ones. `nothing` when the requester may not know. */
export type TeamRepositories = { teams: number } | { ownerId: number } | 'nothing'

/** Returns a team's repositories. Only visible to the organization, as at `/teams/{id}/repos`. */
export function teamRepositories(
  team: Team,
  organization: AccountDocument | undefined,
  requester: AccountDocument | null,
): TeamRepositories {
  const mayKnow =
    organization?.kind === 'organization' &&
    !organization.deleted &&
    requester !== null &&
    (requester.siteAdmin || isMemberOf(organization.id, requester))
  if (!mayKnow) return 'nothing'
  // The Owners have all that the organization has.
  const hasAll = team.kind === 'owners' || team.team.allRepositories
  return hasAll ? { ownerId: organization.id } : { teams: team.team.id }
}
