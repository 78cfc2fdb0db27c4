/** `org-<id>`: an organization and its teams. */
import { type Static, Type } from 'typebox'
import { AccountRef, Changes, type EventsOf, Flag, Text, Whole } from './parts.ts'

export const AccountKind = Type.Enum(['user', 'organization'])
export type AccountKind = Static<typeof AccountKind>

export const Permission = Type.Enum(['read', 'write', 'admin'])
export type Permission = Static<typeof Permission>

/** Visibility of an account: everyone, signed-in users, or only its members. */
export const VISIBILITIES = ['public', 'limited', 'private'] as const
export type Visibility = (typeof VISIBILITIES)[number]
export const Visibility = Type.Enum([...VISIBILITIES])

const organizationSettings = {
  fullName: Text,
  description: Text,
  /** May be empty. */
  email: Text,
  location: Text,
  website: Text,
  visibility: Visibility,
}
const OrganizationSettings = Type.Object(organizationSettings)
export type OrganizationSettings = Static<typeof OrganizationSettings>

/** A team as events name it. The id identifies it: no team, user or organization has the same one. */
export const TeamRef = Type.Object({ id: Whole, name: Text })
export type TeamRef = Static<typeof TeamRef>

/** The permissions of a team's members. */
const TeamGrant = Type.Object({
  permission: Permission,
  /** Whether the permission covers all repositories of the organization, or only added ones. */
  allRepositories: Flag,
  canCreateRepositories: Flag,
})
export type TeamGrant = Static<typeof TeamGrant>

const TeamSettings = Type.Object({
  ...TeamGrant.properties,
  name: Text,
  description: Text,
  /** Gitea's names of repository units, as the client sent them. All have the same permission here. */
  units: Type.Array(Text),
})
export type TeamSettings = Static<typeof TeamSettings>

/** Fields of all events of a team. */
const ofTeam = { organization: AccountRef, team: TeamRef }

export const teamEvents = {
  TeamCreated: Type.Object({ ...ofTeam, settings: TeamSettings }),
  /** The complete new settings, and the ids of the members, if their permissions change. */
  TeamEdited: Type.Object({ ...ofTeam, settings: TeamSettings, members: Type.Array(Whole) }),
  TeamDeleted: Type.Object({ ...ofTeam, members: Type.Array(Whole) }),
  TeamMemberAdded: Type.Object({ ...ofTeam, user: AccountRef, grant: TeamGrant }),
  TeamMemberRemoved: Type.Object({ ...ofTeam, user: AccountRef }),
  TeamRepositoryAdded: Type.Object({ ...ofTeam, repoId: Whole }),
  TeamRepositoryRemoved: Type.Object({ ...ofTeam, repoId: Whole }),
}
export type TeamEvent = EventsOf<typeof teamEvents>

const ofMember = { organization: AccountRef, user: AccountRef }

export const organizationEvents = {
  OrganizationCreated: Type.Object({ id: Whole, login: Text, ...organizationSettings }),
  /** Its repositories are being hidden first. An `OrganizationEdited` with the visibility ends this. */
  HidingStarted: Type.Object({ organization: AccountRef, visibility: Visibility }),
  OrganizationEdited: Type.Object({ organization: AccountRef, changes: Changes(organizationSettings) }),
  MemberSet: Type.Object({ ...ofMember, permission: Permission }),
  MemberRemoved: Type.Object(ofMember),
  /** Whether users outside the organization see the membership; default false. */
  MembershipShown: Type.Object({ ...ofMember, isPublic: Flag }),
  /** The deletion has removed these members from the organization and its teams. Large ones take several events. */
  MembersReleased: Type.Object({ organization: AccountRef, members: Type.Array(Whole) }),
  /** Deleted with its teams. `members`: the ids of the last members of the organization and its teams. */
  OrganizationDeleted: Type.Object({
    organization: AccountRef,
    members: Type.Array(Whole),
    teams: Type.Array(Whole),
  }),
}
export type OrganizationEvent = EventsOf<typeof organizationEvents>
