/** Users and organizations: one collection, since they share their names and their ids. */
import type { AccountKind, AccountRef, Permission } from '../events/domain-events.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface AccountDocument {
  id: number
  kind: AccountKind
  login: string
  /** Lower case: what the account is found by. */
  loginKey: string
  fullName: string
  email: string
  description: string
  location: string
  website: string
  visibility: string
  siteAdmin: boolean
  createdAt: string
  /** Of a user: permission by organization id. */
  memberships: Record<string, Permission>
  /** Of an organization, by login. */
  members: (AccountRef & { permission: Permission })[]
}

export const accounts: Collection<AccountDocument> = {
  name: 'accounts',
  indexes: [[['loginKey', 1]], [['email', 1]]],
  arrays: [],
}

export const accountFold: Fold<AccountDocument> = {
  collection: accounts,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'UserCreated':
      case 'OrganizationCreated':
        return [`${event.data.id}`]
      case 'MemberSet':
      case 'MemberRemoved':
        return [`${event.data.organization.id}`, `${event.data.user.id}`]
      default:
        return []
    }
  },
  evolve(account, event, id) {
    switch (event.type) {
      case 'UserCreated':
        return {
          ...newAccount('user', event.data, event.metadata.at),
          siteAdmin: event.data.siteAdmin,
        }
      case 'OrganizationCreated': {
        const { description, location, website, visibility } = event.data
        const created = newAccount('organization', event.data, event.metadata.at)
        return { ...created, description, location, website, visibility }
      }
      case 'MemberSet':
      case 'MemberRemoved': {
        if (account === undefined) return undefined
        const { organization, user } = event.data
        const permission = event.type === 'MemberSet' ? event.data.permission : undefined
        return id === `${organization.id}`
          ? { ...account, members: withMember(account.members, user, permission) }
          : { ...account, memberships: withMembership(account.memberships, organization.id, permission) }
      }
      default:
        return account
    }
  },
}

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
