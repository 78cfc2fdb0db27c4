/** The organization aggregate, with its members. Pure. */

import { type Refusal, refuse } from '../../errors/refusal.ts'
import type {
  OrganizationSettings,
  Permission,
  OrganizationEvent as SettingsEvent,
  TeamEvent,
  Visibility,
} from '../../events/catalog/organizations.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { EventOf } from '../../events/handlers.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import {
  entriesOf,
  hasId,
  type IdMap,
  idsOf,
  noIds,
  valueAt,
  withId,
  withoutId,
} from '../execution/id-map.ts'
import { snapshots } from '../execution/snapshots.ts'
import { emailProblem, loginProblem, textProblem, websiteProblem } from '../users/accounts/names.ts'
import { leftTeams, type Teams, teamChanges } from './team-state.decider.ts'

/** The events in the stream of an organization. */
export type OrganizationEvent = SettingsEvent | TeamEvent

export type OrganizationDetails = Omit<EventOf<'OrganizationCreated'>['data'], 'id'>

export type OrganizationState =
  | { status: 'missing' }
  | { status: 'deleted' }
  | {
      status: 'active'
      organization: AccountRef
      settings: OrganizationSettings
      /** To whom it will be shown when its repositories are hidden from the others; null: nothing is under way. */
      hidesTo: Visibility | null
      members: IdMap<Permission>
      /** Who made public that they are in it. Some may have left since. */
      publicMembers: IdMap<true>
      teams: Teams
    }

/** The user who wants to change the organization or its members. */
export interface MemberActor {
  id: number
  siteAdmin: boolean
}

export const organizationDecider: Decider<OrganizationState, OrganizationEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    OrganizationCreated: (_, { data: { id, login, ...settings } }) => ({
      status: 'active',
      organization: { id, login },
      settings,
      hidesTo: null,
      members: noIds(),
      publicMembers: noIds(),
      teams: noIds(),
    }),
    OrganizationDeleted: () => ({ status: 'deleted' }),
  },
  exists: (state: OrganizationState) => state.status === 'active',
  changes: {
    HidingStarted: (_, { data }) => ({ hidesTo: data.visibility }),
    OrganizationEdited: ({ settings, hidesTo }, { data: { changes } }) => ({
      settings: { ...settings, ...changes },
      hidesTo: changes.visibility === undefined ? hidesTo : null,
    }),
    MemberSet: (state, { data }) => ({
      members: withId(state.members, data.user.id, data.permission),
      publicMembers: whenJoins(state, data.user.id),
    }),
    MemberRemoved: ({ members }, { data }) => ({ members: withoutId(members, data.user.id) }),
    MembershipShown: ({ publicMembers }, { data: { user, isPublic } }) => ({
      publicMembers: isPublic ? withId(publicMembers, user.id, true) : withoutId(publicMembers, user.id),
    }),
    // The deletion is in the same append.
    MembersReleased: () => ({}),
    ...teamChanges,
    TeamMemberAdded: (state, event) => ({
      ...teamChanges.TeamMemberAdded(state, event),
      publicMembers: whenJoins(state, event.data.user.id),
    }),
  },
})

type Active = Extract<OrganizationState, { status: 'active' }>

/** Whether a user is a member, or in a team. */
function isIn({ members, teams }: Active, userId: number): boolean {
  if (hasId(members, userId)) return true
  for (const [, team] of entriesOf(teams)) if (hasId(team.members, userId)) return true
  return false
}

/** Who left and comes back is in it privately again. */
const whenJoins = (state: Active, userId: number): IdMap<true> =>
  hasId(state.publicMembers, userId) && !isIn(state, userId)
    ? withoutId(state.publicMembers, userId)
    : state.publicMembers

/** What is wrong with the details of a new organization, apart from a name that is taken, or with new settings. */
export function organizationProblem(details: Partial<OrganizationDetails>): Refusal | undefined {
  const { login, email = '', fullName = '', location = '', website = '' } = details
  const errors = [
    ['username', login === undefined ? undefined : loginProblem(login)],
    ['email', email === '' ? undefined : emailProblem(email)],
    ['full_name', textProblem(fullName)],
    ['location', textProblem(location)],
    ['website', websiteProblem(website)],
  ].flatMap(([field, problem]) => (problem === undefined ? [] : [`${field}: ${problem}`]))
  return errors.length === 0 ? undefined : refuse.unprocessable(errors.join('; '), errors)
}

/** Creates an organization with its creator as the first admin. */
export function decideCreateOrganization(
  state: OrganizationState,
  id: number,
  details: OrganizationDetails,
  creator: AccountRef,
): Decision<OrganizationEvent> {
  if (state.status !== 'missing') return refuse.conflict(`organization ${id} exists already`)
  const problem = organizationProblem(details)
  if (problem !== undefined) return problem
  const organization = { id, login: details.login }
  return [
    { type: 'OrganizationCreated', data: { id, ...details } },
    { type: 'MemberSet', data: { organization, user: creator, permission: 'admin' } },
  ]
}

export const NOT_ITS_ADMIN = refuse.forbidden('only admins of the organization may change it')

/** Changes the settings that differ. Only admins of the organization may do that. */
export function decideEditOrganization(
  state: OrganizationState,
  actor: MemberActor,
  wanted: Partial<OrganizationSettings>,
): Decision<OrganizationEvent> {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  if (!isAdmin(state.members, actor)) return NOT_ITS_ADMIN
  const problem = organizationProblem(wanted)
  if (problem !== undefined) return problem
  const changes = changedFields(state.settings, wanted)
  if (Object.keys(changes).length === 0) return []
  return [{ type: 'OrganizationEdited', data: { organization: state.organization, changes } }]
}

export function decideSetMember(
  state: OrganizationState,
  actor: MemberActor,
  user: AccountRef,
  permission: Permission,
): Decision<OrganizationEvent> {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  if (!isAdmin(state.members, actor)) return NOT_ADMIN
  if (valueAt(state.members, user.id) === permission) return []
  if (permission !== 'admin' && isLastAdmin(state.members, user.id)) return LAST_ADMIN
  return [{ type: 'MemberSet', data: { organization: state.organization, user, permission } }]
}

/**
 * Removes a member, also from all teams; or whoever is only in teams from those. Only admins of the organization may do
 * that, but each member may leave.
 */
export function decideRemoveMember(
  state: OrganizationState,
  actor: MemberActor,
  user: AccountRef,
): Decision<OrganizationEvent> {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  if (actor.id !== user.id && !isAdmin(state.members, actor)) return NOT_ADMIN
  const left = leftTeams(state, user)
  if (!hasId(state.members, user.id)) {
    return left.length > 0 ? left : refuse.notFound(`${user.login} is not a member`)
  }
  if (isLastAdmin(state.members, user.id)) return LAST_ADMIN
  return [{ type: 'MemberRemoved', data: { organization: state.organization, user } }, ...left]
}

/** Shows to people outside that a user is in it, or hides it from them. Admins of the organization may do that for others. */
export function decideShowMembership(
  state: OrganizationState,
  actor: Pick<MemberActor, 'id'>,
  user: AccountRef,
  isPublic: boolean,
): Decision<OrganizationEvent> {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  if (actor.id !== user.id || !isIn(state, user.id)) {
    return refuse.forbidden('only members show or hide their own membership')
  }
  if (hasId(state.publicMembers, user.id) === isPublic) return []
  return [{ type: 'MembershipShown', data: { organization: state.organization, user, isPublic } }]
}

/** Of how many people one event of a deletion says that they are out: each of them has a document. */
const RELEASED_AT_ONCE = 1000

/**
 * Deletes an organization that owns nothing, as in Gitea, with its teams. Only its admins may do that. `atOnce`: of how many
 * people one event is about.
 */
export function decideDeleteOrganization(
  state: OrganizationState,
  actor: MemberActor,
  repositories: number,
  atOnce = RELEASED_AT_ONCE,
): Decision<OrganizationEvent> {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  const { organization, members, teams } = state
  if (!isAdmin(members, actor)) return refuse.forbidden('only admins of the organization may delete it')
  if (repositories > 0) {
    return refuse.unprocessable(
      `${organization.login} still owns repositories (${repositories}): delete or transfer them first`,
    )
  }
  const people = new Set(idsOf(members))
  for (const [, team] of entriesOf(teams)) for (const id of idsOf(team.members)) people.add(id)
  const events: OrganizationEvent[] = []
  const rest = [...people]
  while (rest.length > atOnce) {
    events.push({ type: 'MembersReleased', data: { organization, members: rest.splice(0, atOnce) } })
  }
  return [
    ...events,
    { type: 'OrganizationDeleted', data: { organization, members: rest, teams: idsOf(teams) } },
  ]
}

export const NOT_ADMIN = refuse.forbidden('only admins of the organization may change its members')
const LAST_ADMIN = refuse.unprocessable('an organization needs an admin; add another admin first')

/** Whether someone may change the organization: one of its admins, or a site admin. */
export function isAdmin(members: IdMap<Permission>, { id, siteAdmin }: MemberActor): boolean {
  return siteAdmin || valueAt(members, id) === 'admin'
}

/** Whether this member is an admin, and nobody else is. */
export function isLastAdmin(members: IdMap<Permission>, userId: number): boolean {
  if (valueAt(members, userId) !== 'admin') return false
  for (const [id, permission] of entriesOf(members)) {
    if (id !== userId && permission === 'admin') return false
  }
  return true
}
