/** Users and organizations. They are one collection, because they share their names and ids. */
import type { AccountKind, AccountRef, Permission } from '../events/domain-events.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface AccountDocument {
  id: number
  kind: AccountKind
  login: string
  /** The login in lower case: look-ups use it. */
  loginKey: string
  fullName: string
  email: string
  description: string
  location: string
  website: string
  visibility: string
  siteAdmin: boolean
  createdAt: string
  /** For a user: the permission in each organization, by the organization's id. */
  memberships: Record<string, Permission>
  /** For an organization: its members, sorted by login. */
  members: (AccountRef & { permission: Permission })[]
}

export const accounts: Collection<AccountDocument> = {
  name: 'accounts',
  indexes: [[['loginKey', 1]], [['email', 1]]],
  arrays: [],
}

export const accountFold: Fold<AccountDocument> = foldOf({
  collection: accounts,
  version: 1,
  ids: ({ data }) =>
    'organization' in data ? [`${data.organization.id}`, `${data.user.id}`] : [`${data.id}`],
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
    MemberSet: (account, { data }) => withPermission(account, data, data.permission),
    MemberRemoved: (account, { data }) => withPermission(account, data, undefined),
  },
})

export const accountModel = readModel(accountFold)

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
    fullName: created.fullName,
    email: created.email,
    description: '',
    location: '',
    website: '',
    visibility: 'public',
    siteAdmin: false,
    createdAt: at,
    memberships: {},
    members: [],
  }
}

/** Changes the members of the organization's document, or the memberships of the user's document. */
function withPermission(
  { id, members, memberships }: AccountDocument,
  { organization, user }: { organization: AccountRef; user: AccountRef },
  permission: Permission | undefined,
): Partial<AccountDocument> {
  return id === organization.id
    ? { members: withMember(members, user, permission) }
    : { memberships: withMembership(memberships, organization.id, permission) }
}

function withMember(
  members: AccountDocument['members'],
  user: AccountRef,
  permission: Permission | undefined,
) {
  const others = members.filter((member) => member.id !== user.id)
  if (permission === undefined) return others
  return [...others, { ...user, permission }].sort((a, b) => (a.login < b.login ? -1 : 1))
}

function withMembership(
  memberships: Record<string, Permission>,
  organizationId: number,
  permission: Permission | undefined,
) {
  const { [`${organizationId}`]: _left, ...others } = memberships
  return permission === undefined ? others : { ...others, [`${organizationId}`]: permission }
}
