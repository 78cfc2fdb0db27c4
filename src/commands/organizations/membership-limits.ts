/**
 * In how many organizations and teams one user can be. The document of the user names them all and is read with each of
 * the user's requests, and everybody who makes an organization can put anybody in it.
 */

import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'

const MAX_ORGANIZATIONS = 1000
/** More than one organization can have. */
const MAX_TEAMS = 1000

type Member = Pick<AccountDocument, 'login' | 'memberships' | 'teams'>

/** @throws Refused (unprocessable) when the user can be in no further organization */
export function requireRoomForOrganization({ login, memberships }: Member, organizationId: number): void {
  if (memberships[`${organizationId}`] !== undefined) return
  if (Object.keys(memberships).length < MAX_ORGANIZATIONS) return
  throw new Refused(refuse.unprocessable(`${login} is in ${MAX_ORGANIZATIONS} organizations already`))
}

/** @throws Refused (unprocessable) when the user can be in no further team */
export function requireRoomForTeam({ login, teams }: Member, teamId: number): void {
  if (teams[`${teamId}`] !== undefined || Object.keys(teams).length < MAX_TEAMS) return
  throw new Refused(refuse.unprocessable(`${login} is in ${MAX_TEAMS} teams already`))
}
