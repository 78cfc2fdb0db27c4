/** The repositories of a team, as a part of a filter. */

import { isMemberOf } from '../../access/visibility.ts'
import type { Team } from '../../api/organizations/teams.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'

/** All repositories of the organization, or the team's own; `nothing` when the requester may not see them. */
export type TeamRepositories = { teams: number } | { ownerId: number } | 'nothing'

/** Returns a team's repositories. Only visible to the organization, as at `/teams/{id}/repos`. */
export function teamRepositories(
  team: Team,
  organization: AccountDocument | undefined,
  requester: AccountDocument | null,
): TeamRepositories {
  const maySee =
    organization?.kind === 'organization' &&
    !organization.deleted &&
    requester !== null &&
    (requester.siteAdmin || isMemberOf(organization.id, requester))
  if (!maySee) return 'nothing'
  // The Owners have all repositories of the organization.
  const hasAll = team.kind === 'owners' || team.team.allRepositories
  return hasAll ? { ownerId: organization.id } : { teams: team.team.id }
}
