/** A requester's access to a repository. Pure. */
import type { Permission } from '../events/catalog/organizations.ts'
import type { PendingTransfer } from '../events/catalog/repositories.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import { type AccountDocument, maySignIn } from '../projections/models/users/accounts.fold.ts'
import type { Filter } from '../projections/store/read-store.ts'
import { repositoryRules } from './present-rules.ts'
import { teamsWith } from './team-membership.ts'
import { isOpenTo, publicReaderIds, readerIdsOf } from './visibility.ts'

export type Access = 'none' | Permission

const RANK: Record<Access, number> = { none: 0, read: 1, write: 2, admin: 3 }

/**
 * The requester's access: the highest one that the requester has as a site admin, as the owner, as a member of the
 * owning organization or of its teams, as a collaborator, as the recipient of a transfer or, in a repository that is
 * open to all, as anyone. Null is an anonymous requester.
 */
export const accessTo = (repository: RepositoryDocument, requester: AccountDocument | null): Access =>
  accessIn(repositoryRules.of(repository), requester)

/** The access that this document gives, also when it is of the past. */
export function accessIn(repository: RepositoryDocument, requester: AccountDocument | null): Access {
  // A disabled account has no access, also when the server acts for it later (a scheduled merge).
  if (requester !== null && !maySignIn(requester)) return accessIn(repository, null)
  const anyone: Access = isOpenTo(repository, requester) ? 'read' : 'none'
  if (requester === null) return anyone
  if (requester.siteAdmin || requester.id === repository.ownerId) return 'admin'
  const granted: Access[] = [
    anyone,
    requester.memberships[`${repository.ownerId}`] ?? 'none',
    repository.collaborators[`${requester.id}`]?.permission ?? 'none',
    repository.transfer?.recipient.id === requester.id ? 'read' : 'none',
    ...teamAccess(repository, requester),
  ]
  return granted.reduce((most, access) => (RANK[access] > RANK[most] ? access : most))
}

/** How an account got its access, when it has several ways: the first of these that gives the most. */
export const GRANTS = ['site-admin', 'owner', 'organization', 'collaborator', 'team', 'public'] as const
export type Grant = (typeof GRANTS)[number]

/** The account's access, and how it got it: `null` without access. */
export function grantedAccess(
  repository: RepositoryDocument,
  account: AccountDocument,
): { access: Access; through: Grant | null } {
  const access = accessTo(repository, account)
  if (access === 'none' || !maySignIn(account))
    return { access, through: access === 'none' ? null : 'public' }
  if (account.siteAdmin) return { access, through: 'site-admin' }
  if (account.id === repository.ownerId) return { access, through: 'owner' }
  if (account.memberships[`${repository.ownerId}`] === access) return { access, through: 'organization' }
  if (repository.collaborators[`${account.id}`]?.permission === access)
    return { access, through: 'collaborator' }
  return { access, through: teamAccess(repository, account).includes(access) ? 'team' : 'public' }
}

/**
 * Whether the requester may give the repository away: its owner, the admins of an organization that owns it, site
 * admins.
 */
export function owns(repository: RepositoryDocument, requester: AccountDocument): boolean {
  const { siteAdmin, id, memberships } = requester
  return siteAdmin || id === repository.ownerId || memberships[`${repository.ownerId}`] === 'admin'
}

/**
 * Whether the requester may create repositories in an organization: members with write permission, and teams with that
 * permission.
 */
export function mayCreateIn(organizationId: number, requester: AccountDocument): boolean {
  const permission = requester.memberships[`${organizationId}`]
  const isInTeam = Object.values(requester.teams).some(
    (team) => team.organizationId === organizationId && team.canCreateRepositories,
  )
  return requester.siteAdmin || permission === 'write' || permission === 'admin' || isInTeam
}

/**
 * Whether the requester may accept or refuse a transfer: the recipient, or a user who may create repositories there.
 */
export function mayAnswerTransfer({ recipient }: PendingTransfer, requester: AccountDocument): boolean {
  if (recipient.kind === 'user') return recipient.id === requester.id
  return mayCreateIn(recipient.id, { ...requester, siteAdmin: false })
}

/** Returns the permissions through teams of the owning organization. */
function teamAccess(repository: RepositoryDocument, requester: AccountDocument): Permission[] {
  return teamsWith(repository, requester).flatMap((id) => requester.teams[`${id}`]?.permission ?? [])
}

/** Whether the requester has public access only, and so may not see the people of the repository. */
export function isPublicReaderOnly(
  repository: RepositoryDocument,
  requester: AccountDocument | null,
): boolean {
  return !atLeast(accessIn({ ...repositoryRules.of(repository), private: true }, requester), 'read')
}

/** The repositories that a requester may read, as a filter. It agrees with `accessTo`. */
export function readableBy(requester: AccountDocument | null): Filter<RepositoryDocument> {
  if (requester === null || !maySignIn(requester)) return { readers: { $in: publicReaderIds(null) } }
  if (requester.siteAdmin) return {}
  return { readers: { $in: [...publicReaderIds(requester), ...readerIdsOf(requester)] } }
}

export function atLeast(access: Access, needed: Permission): boolean {
  return RANK[access] >= RANK[needed]
}
