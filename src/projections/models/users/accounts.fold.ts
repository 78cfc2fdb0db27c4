/** Users and organizations. They are one collection, because they share their names and ids. */
import type { AccountKind, Permission, TeamGrant, Visibility } from '../../../events/catalog/organizations.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { partsOf } from '../repositories/name-parts.ts'
import { allRepositoriesOf } from '../repositories/repositories.fold.ts'

export interface AccountDocument {
  id: number
  kind: AccountKind
  login: string
  /** The login in lower case, for look-ups. */
  loginKey: string
  /** The parts of the login and of the full name, for keywords. */
  nameParts: string[]
  fullName: string
  email: string
  /** Other, unverified addresses of a user. */
  emails: string[]
  /** All addresses in lower case, for sign-in. */
  emailKeys: string[]
  description: string
  location: string
  website: string
  visibility: Visibility
  siteAdmin: boolean
  /** Whether other users see the e-mail address. */
  showEmail: boolean
  /** False disables sign-in and all permissions. See `maySignIn`. */
  active: boolean
  prohibitLogin: boolean
  mustChangePassword: boolean
  /** Id of the password's hash in the secret store; null for the first one. */
  passwordId: string | null
  /** A deleted account stays as a ghost with its id and the name in its events, because its actions stay. */
  deleted: boolean
  createdAt: string
  /** For a user: number of starred repositories, including deleted ones. */
  stars: number
  /** For a user: the permission in each organization, by the organization's id. */
  memberships: Record<string, Permission>
  /** For a user: the teams, by their ids. */
  teams: Record<string, TeamMembership>
  /** For filters of member lists. */
  teamIds: number[]
  /** The user's organizations, by membership or by team. */
  organizationIds: number[]
  /** Those of them whose membership is public. */
  publicOrganizationIds: number[]
  /**
   * Ids that stand for the user in `granted` of a repository: the user, organizations and teams. Lists of a
   * repository's users filter by it.
   */
  grantIds: number[]
  /** Those of them with write permission. */
  writeGrantIds: number[]
  /** The organizations that the user administers. */
  ownedIds: number[]
}

/** Permissions of a team's member. */
interface TeamMembership extends TeamGrant {
  organizationId: number
}

export const accountFold: Fold<AccountDocument> = foldOf({
  name: 'accounts',
  indexes: [{ loginKey: 1 }, { email: 1 }, { siteAdmin: 1 }, { kind: 1, deleted: 1, loginKey: 1 }],
  arrays: [
    'nameParts',
    'emailKeys',
    'teamIds',
    'organizationIds',
    'publicOrganizationIds',
    'grantIds',
    'writeGrantIds',
    'ownedIds',
  ],
  version: 8,
  ids({ data }) {
    // The document of an organization lacks its members: it is read with each of its repositories.
    if ('user' in data) return [`${data.user.id}`]
    if ('team' in data) return data.members.map(String)
    if ('teams' in data) return [data.organization.id, ...data.members].map(String)
    if ('members' in data) return data.members.map(String)
    return [`${'organization' in data ? data.organization.id : data.id}`]
  },
  becomes: {
    UserCreated: (_, { data, metadata }) => ({
      ...newAccount('user', data, metadata.at),
      siteAdmin: data.siteAdmin,
    }),
    OrganizationCreated(_, { data, metadata }) {
      const { description, location, website, visibility } = data
      const created = newAccount('organization', data, metadata.at)
      return { ...created, description, location, website, visibility }
    },
  },
  changes: {
    UserEdited: (_, { data }) => data.changes,
    OrganizationEdited: (_, { data }) => data.changes,
    EmailAdded: ({ emails }, { data }) => ({ emails: [...emails, data.email] }),
    EmailRemoved: ({ emails }, { data }) => ({ emails: emails.filter((email) => email !== data.email) }),
    PasswordChanged: (_, { data: { passwordId, mustChangePassword } }) => ({
      passwordId,
      mustChangePassword,
    }),
    UserDeleted: ({ id }) => ghost(id),
    MembersReleased: (account, { data }) => withoutOrganization(account, data.organization.id),
    OrganizationDeleted: (account, { data: { organization } }, id) =>
      id === `${organization.id}` ? ghost(organization.id) : withoutOrganization(account, organization.id),
    RepositoryStarred: ({ stars }) => ({ stars: stars + 1 }),
    RepositoryUnstarred: ({ stars }) => ({ stars: stars - 1 }),
    MemberSet: (account, { data }) => withPermission(account, data, data.permission),
    MemberRemoved: (account, { data }) => withPermission(account, data),
    MembershipShown: ({ publicOrganizationIds }, { data: { organization, isPublic } }) => {
      const others = publicOrganizationIds.filter((id) => id !== organization.id)
      return { publicOrganizationIds: isPublic ? [...others, organization.id] : others }
    },
    TeamMemberAdded: (account, { data }) => withTeam(account, data, data.grant),
    TeamMemberRemoved: (account, { data }) => withTeam(account, data),
    TeamEdited: (account, { data }) => withTeam(account, data, data.settings),
    TeamDeleted: (account, { data }) => withTeam(account, data),
  },
  derived: ({ id, deleted, login, fullName, email, emails, memberships, teams, publicOrganizationIds }) => {
    const organizationIds = new Set([
      ...Object.keys(memberships).map(Number),
      ...Object.values(teams).map(({ organizationId }) => organizationId),
    ])
    return {
      emailKeys: [email, ...emails].map((one) => one.toLowerCase()),
      nameParts: deleted ? [] : partsOf(login, fullName),
      organizationIds: [...organizationIds],
      // A user who returns is a private member again.
      publicOrganizationIds: publicOrganizationIds.filter((one) => organizationIds.has(one)),
      ...grantsOf(id, memberships, teams),
    }
  },
})

/** Login of the site admin that the first start creates. It is reserved. */
export const FIRST_ADMIN = 'admin'

/** Gitea's name for deleted users; here also for organizations. Look-ups use lower case, so they never match it. */
export const GHOST = 'Ghost'

/** Whether the account can sign in. If not, it has no permissions either. */
export function maySignIn({
  active,
  prohibitLogin,
}: Pick<AccountDocument, 'active' | 'prohibitLogin'>): boolean {
  return active && !prohibitLogin
}

/** Fields of a deleted account. */
const ghost = (id: number) => ({
  deleted: true,
  active: false,
  siteAdmin: false,
  login: GHOST,
  loginKey: `${GHOST} ${id}`,
  fullName: '',
  email: '',
  emails: [],
  description: '',
  location: '',
  website: '',
  showEmail: false,
})

function newAccount(
  kind: AccountKind,
  created: { id: number; login: string; email: string; fullName: string },
  at: string,
): AccountDocument {
  return {
    id: created.id,
    kind,
    login: created.login,
    loginKey: created.login.toLowerCase(),
    nameParts: partsOf(created.login, created.fullName),
    fullName: created.fullName,
    email: created.email,
    emails: [],
    emailKeys: [created.email.toLowerCase()],
    description: '',
    location: '',
    website: '',
    visibility: 'public',
    siteAdmin: false,
    showEmail: false,
    active: true,
    prohibitLogin: false,
    mustChangePassword: false,
    passwordId: null,
    deleted: false,
    createdAt: at,
    stars: 0,
    memberships: {},
    teams: {},
    teamIds: [],
    organizationIds: [],
    publicOrganizationIds: [],
    ...grantsOf(created.id, {}, {}),
  }
}

function grantsOf(
  id: number,
  memberships: Record<string, Permission>,
  teams: Record<string, TeamMembership>,
): Pick<AccountDocument, 'grantIds' | 'writeGrantIds' | 'ownedIds'> {
  const given = [
    ...Object.entries(memberships).map(([key, permission]) => ({ id: Number(key), permission })),
    ...Object.entries(teams).map(([key, team]) => ({
      id: team.allRepositories ? allRepositoriesOf(team.organizationId) : Number(key),
      permission: team.permission,
    })),
  ]
  const writing = given.filter(({ permission }) => permission !== 'read')
  const owned = Object.keys(memberships).filter((key) => memberships[key] === 'admin')
  return {
    grantIds: [id, ...new Set(given.map((one) => one.id))],
    writeGrantIds: [id, ...new Set(writing.map((one) => one.id))],
    ownedIds: owned.map(Number),
  }
}

/** Sets the permission of a member, or ends the membership (without one). */
function withPermission(
  account: AccountDocument,
  { organization }: { organization: AccountRef },
  permission?: Permission,
): Partial<AccountDocument> {
  const { [`${organization.id}`]: _left, ...memberships } = account.memberships
  if (permission !== undefined) memberships[`${organization.id}`] = permission
  return { memberships }
}

/** Removes the membership in an organization and its teams. */
function withoutOrganization(account: AccountDocument, organizationId: number): Partial<AccountDocument> {
  const { [`${organizationId}`]: _left, ...memberships } = account.memberships
  const teams = Object.fromEntries(
    Object.entries(account.teams).filter(([, team]) => team.organizationId !== organizationId),
  )
  return { memberships, teams, teamIds: Object.keys(teams).map(Number) }
}

/** Sets a user's permissions through a team, or removes them (without a grant). */
function withTeam(
  account: AccountDocument,
  { organization, team }: { organization: AccountRef; team: { id: number } },
  grant?: TeamGrant,
): Partial<AccountDocument> {
  const { [`${team.id}`]: _before, ...teams } = account.teams
  if (grant !== undefined) {
    const { permission, allRepositories, canCreateRepositories } = grant
    const organizationId = organization.id
    teams[`${team.id}`] = { organizationId, permission, allRepositories, canCreateRepositories }
  }
  return { teams, teamIds: Object.keys(teams).map(Number) }
}
