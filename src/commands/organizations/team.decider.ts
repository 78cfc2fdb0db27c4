/** Decides changes of the teams of an organization, for its admins. Pure. */

import { type Refusal, refuse } from '../../errors/refusal.ts'
import type { TeamEvent, TeamGrant, TeamSettings } from '../../events/catalog/organizations.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Decision } from '../execution/decider.ts'
import { entriesOf, hasId, idsOf, valueAt } from '../execution/id-map.ts'
import { isAdmin, type MemberActor, type OrganizationState } from './organization.decider.ts'
import { type TeamState, teamRemovals } from './team-state.decider.ts'

/** Maximum number of members of a team: each event of a change names all. */
const MAX_TEAM_MEMBERS = 1000
export const MAX_TEAMS = 500
/** Name of the built-in team: the admins of the organization. */
const OWNERS = 'Owners'
const MAX_NAME = 255

type Active = Extract<OrganizationState, { status: 'active' }>
type OrganizationTeam = { organization: Active; team: TeamState }

export const NOT_ADMIN = refuse.forbidden('only admins of the organization may change its teams')
const gone = refuse.notFound('team not found')

/** Returns what is invalid in the name of a team; undefined when it is valid and free. */
function nameProblem({ teams }: Active, name: string, ownId?: number): Refusal | undefined {
  const problem = (text: string) => refuse.unprocessable(`name: ${text}`, [`name: ${text}`])
  if (name === '' || name.length > MAX_NAME) return problem(`must have 1 to ${MAX_NAME} characters`)
  if (!/^[-.\w]+$/.test(name)) return problem("may only have letters, digits, '-', '_' and '.'")
  const key = name.toLowerCase()
  if (key === OWNERS.toLowerCase() || key === 'new') return problem(`"${name}" is reserved`)
  const isTaken = [...entriesOf(teams)].some(
    ([id, { settings }]) => id !== ownId && settings.name.toLowerCase() === key,
  )
  return isTaken ? problem(`"${name}" is taken`) : undefined
}

function organizationOf(state: OrganizationState, actor: MemberActor): Active | Refusal {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  return isAdmin(state.members, actor) ? state : NOT_ADMIN
}

function teamOf(state: OrganizationState, actor: MemberActor, id: number): OrganizationTeam | Refusal {
  const organization = organizationOf(state, actor)
  if ('refused' in organization) return organization
  const team = valueAt(organization.teams, id)
  return team === undefined ? gone : { organization, team }
}

const refsOf = ({ organization, team }: OrganizationTeam, id: number) => ({
  organization: organization.organization,
  team: { id, name: team.settings.name },
})

const grantOf = ({ permission, allRepositories, canCreateRepositories }: TeamGrant): TeamGrant => ({
  permission,
  allRepositories,
  canCreateRepositories,
})

export function decideCreateTeam(
  state: OrganizationState,
  actor: MemberActor,
  id: number,
  settings: TeamSettings,
): Decision<TeamEvent> {
  const found = organizationOf(state, actor)
  if ('refused' in found) return found
  if (found.teams.size >= MAX_TEAMS)
    return refuse.unprocessable(`an organization has at most ${MAX_TEAMS} teams`)
  const problem = nameProblem(found, settings.name)
  if (problem !== undefined) return problem
  const { organization } = found
  return [{ type: 'TeamCreated', data: { organization, team: { id, name: settings.name }, settings } }]
}

export function decideEditTeam(
  state: OrganizationState,
  actor: MemberActor,
  id: number,
  wanted: Partial<TeamSettings>,
): Decision<TeamEvent> {
  const found = teamOf(state, actor, id)
  if ('refused' in found) return found
  const { settings: before, members } = found.team
  const settings = { ...before, ...wanted }
  const problem = nameProblem(found.organization, settings.name, id)
  if (problem !== undefined) return problem
  if (JSON.stringify(settings) === JSON.stringify(before)) return []
  const isSameGrant = JSON.stringify(grantOf(settings)) === JSON.stringify(grantOf(before))
  const data = { ...refsOf(found, id), settings, members: isSameGrant ? [] : idsOf(members) }
  return [{ type: 'TeamEdited', data: { ...data, team: { id, name: settings.name } } }]
}

export function decideDeleteTeam(
  state: OrganizationState,
  actor: MemberActor,
  id: number,
): Decision<TeamEvent> {
  const found = teamOf(state, actor, id)
  if ('refused' in found) return found
  return [{ type: 'TeamDeleted', data: { ...refsOf(found, id), members: idsOf(found.team.members) } }]
}

export function decideAddTeamMember(
  state: OrganizationState,
  actor: MemberActor,
  id: number,
  user: AccountRef,
): Decision<TeamEvent> {
  const found = teamOf(state, actor, id)
  if ('refused' in found) return found
  const { members, settings } = found.team
  if (hasId(members, user.id)) return []
  if (members.size >= MAX_TEAM_MEMBERS) {
    return refuse.unprocessable(`a team has at most ${MAX_TEAM_MEMBERS} members`)
  }
  return [{ type: 'TeamMemberAdded', data: { ...refsOf(found, id), user, grant: grantOf(settings) } }]
}

export function decideRemoveTeamMember(
  state: OrganizationState,
  actor: MemberActor,
  id: number,
  user: AccountRef,
): Decision<TeamEvent> {
  const found = teamOf(state, actor, id)
  if ('refused' in found) return found
  if (!hasId(found.team.members, user.id)) return []
  return [{ type: 'TeamMemberRemoved', data: { ...refsOf(found, id), user } }]
}

/** Removes a user who is being deleted from all teams. */
export function decideLeaveTeams(state: OrganizationState, user: AccountRef): Decision<TeamEvent> {
  return state.status !== 'active' ? [] : teamRemovals(state, user)
}

/** Adds a repository of the organization to a team, or removes it (`isIn` false). */
export function decideTeamRepository(
  state: OrganizationState,
  actor: MemberActor,
  id: number,
  repoId: number,
  isIn: boolean,
): Decision<TeamEvent> {
  const found = teamOf(state, actor, id)
  if ('refused' in found) return found
  if (hasId(found.team.repositories, repoId) === isIn) return []
  const data = { ...refsOf(found, id), repoId }
  return [isIn ? { type: 'TeamRepositoryAdded', data } : { type: 'TeamRepositoryRemoved', data }]
}

/** Removes a repository from all teams after a transfer to another owner. */
export function decideLoseRepository(state: OrganizationState, repoId: number): Decision<TeamEvent> {
  if (state.status !== 'active') return []
  const { organization, teams } = state
  return [...entriesOf(teams)].flatMap(([id, { settings, repositories }]): TeamEvent[] => {
    if (!hasId(repositories, repoId)) return []
    const team = { id, name: settings.name }
    return [{ type: 'TeamRepositoryRemoved', data: { organization, team, repoId } }]
  })
}

/** Adds a received repository to those of these teams that still exist. */
export function decideGainRepository(
  state: OrganizationState,
  repoId: number,
  teamIds: readonly number[],
): Decision<TeamEvent> {
  if (state.status !== 'active') return []
  const { organization, teams } = state
  return [...new Set(teamIds)].flatMap((id): TeamEvent[] => {
    const team = valueAt(teams, id)
    if (team === undefined || hasId(team.repositories, repoId)) return []
    const data = { organization, team: { id, name: team.settings.name }, repoId }
    return [{ type: 'TeamRepositoryAdded', data }]
  })
}
