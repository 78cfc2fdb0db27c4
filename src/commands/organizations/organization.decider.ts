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
import { type Teams, teamChanges, teamRemovals } from './team-state.decider.ts'

export type OrganizationEvent = SettingsEvent | TeamEvent

export type OrganizationDetails = Omit<EventOf<'OrganizationCreated'>['data'], 'id'>

export type OrganizationState =
  | { status: 'missing' }
  | { status: 'deleted' }
  | {
      status: 'active'
      organization: AccountRef
      settings: OrganizationSettings
      /** The visibility after its repositories are hidden; null when no change is under way. */
      hidesTo: Visibility | null
      members: IdMap<Permission>
      /** Users who made their membership public. Some may have left since. */
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
      publicMembers: publicMembersAfterJoin(state, data.user.id),
    }),
    MemberRemoved: ({ members }, { data }) => ({ members: withoutId(members, data.user.id) }),
    MembershipShown: ({ publicMembers }, { data: { user, isPublic } }) => ({
      publicMembers: isPublic ? withId(publicMembers, user.id, true) : withoutId(publicMembers, user.id),
    }),
    // The same append deletes the organization.
    MembersReleased: () => ({}),
    ...teamChanges,
    TeamMemberAdded: (state, event) => ({
      ...teamChanges.TeamMemberAdded(state, event),
      publicMembers: publicMembersAfterJoin(state, event.data.user.id),
    }),
  },
})

type Active = Extract<OrganizationState, { status: 'active' }>

/** Returns whether a user is a member, or in a team. */
function isIn({ members, teams }: Active, userId: number): boolean {
  if (hasId(members, userId)) return true
  for (const [, team] of entriesOf(teams)) if (hasId(team.members, userId)) return true
  return false
}

/** Drops the public flag of a user who left and joins again. */
const publicMembersAfterJoin = (state: Active, userId: number): IdMap<true> =>
  hasId(state.publicMembers, userId) && !isIn(state, userId)
    ? withoutId(state.publicMembers, userId)
    : state.publicMembers

/** Returns what is invalid in new details or settings, apart from a taken name. */
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

/** Creates an organization. Its creator is the first admin. */
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

/** Changes the settings that differ. Requires an admin of the organization. */
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
 * Removes a member with all teams, or a team member from the teams. Requires an admin of the organization, or the
 * member.
 */
export function decideRemoveMember(
  state: OrganizationState,
  actor: MemberActor,
  user: AccountRef,
): Decision<OrganizationEvent> {
  if (state.status !== 'active') return refuse.notFound('organization not found')
  if (actor.id !== user.id && !isAdmin(state.members, actor)) return NOT_ADMIN
  const left = teamRemovals(state, user)
  if (!hasId(state.members, user.id)) {
    return left.length > 0 ? left : refuse.notFound(`${user.login} is not a member`)
  }
  if (isLastAdmin(state.members, user.id)) return LAST_ADMIN
  return [{ type: 'MemberRemoved', data: { organization: state.organization, user } }, ...left]
}

/** Shows or hides a membership. Admins of the organization may do that for other members. */
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

/** Maximum number of members in one event of a deletion: each has a document. */
const MEMBERS_PER_EVENT = 1000

/**
 * Deletes an organization without repositories, and its teams, as in Gitea. Requires an admin of the organization.
 * `batchSize`: maximum number of members in an event.
 */
export function decideDeleteOrganization(
  state: OrganizationState,
  actor: MemberActor,
  repositories: number,
  batchSize = MEMBERS_PER_EVENT,
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
  while (rest.length > batchSize) {
    events.push({ type: 'MembersReleased', data: { organization, members: rest.splice(0, batchSize) } })
  }
  return [
    ...events,
    { type: 'OrganizationDeleted', data: { organization, members: rest, teams: idsOf(teams) } },
  ]
}

export const NOT_ADMIN = refuse.forbidden('only admins of the organization may change its members')
const LAST_ADMIN = refuse.unprocessable('an organization needs an admin; add another admin first')

/** Returns whether the user is an admin of the organization, or a site admin. */
export function isAdmin(members: IdMap<Permission>, { id, siteAdmin }: MemberActor): boolean {
  return siteAdmin || valueAt(members, id) === 'admin'
}

/** Returns whether this member is the only admin. */
export function isLastAdmin(members: IdMap<Permission>, userId: number): boolean {
  if (valueAt(members, userId) !== 'admin') return false
  for (const [id, permission] of entriesOf(members)) {
    if (id !== userId && permission === 'admin') return false
  }
  return true
}
