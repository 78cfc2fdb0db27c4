/**
 * Limits the organizations and teams of a user. The user's document lists them and is read with each request, and any
 * user who creates an organization can add any other.
 */

import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'

const MAX_ORGANIZATIONS = 1000
/** Maximum number of teams of a user, more than one organization can have. */
const MAX_TEAMS = 1000

type Member = Pick<AccountDocument, 'login' | 'memberships' | 'teams'>

/** @throws Refused (unprocessable) when the user is in too many organizations */
export function requireOrganizationQuota({ login, memberships }: Member, organizationId: number): void {
  if (memberships[`${organizationId}`] !== undefined) return
  if (Object.keys(memberships).length < MAX_ORGANIZATIONS) return
  throw new Refused(refuse.unprocessable(`${login} is in ${MAX_ORGANIZATIONS} organizations already`))
}

/** @throws Refused (unprocessable) when the user is in too many teams */
export function requireTeamQuota({ login, teams }: Member, teamId: number): void {
  if (teams[`${teamId}`] !== undefined || Object.keys(teams).length < MAX_TEAMS) return
  throw new Refused(refuse.unprocessable(`${login} is in ${MAX_TEAMS} teams already`))
}
