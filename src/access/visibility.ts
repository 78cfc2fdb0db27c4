/** Who may see an account, and what everybody may see of repositories. Pure. */
import type { Visibility } from '../events/catalog/organizations.ts'
import {
  ANYONE,
  allRepositoriesOf,
  type RepositoryDocument,
  SIGNED_IN,
} from '../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'

/** Whether who has no other right may see what belongs to an account: null is an anonymous viewer. */
function isVisibleTo(visibility: Visibility, viewer: AccountDocument | null): boolean {
  return visibility === 'public' || (visibility === 'limited' && viewer !== null)
}

/** The organizations that are listed for a viewer who is a member of none, as in Gitea. */
export function visibilitiesFor(viewer: AccountDocument | null): Visibility[] {
  if (viewer?.siteAdmin) return ['public', 'limited', 'private']
  return viewer === null ? ['public'] : ['public', 'limited']
}

/** Whether `viewer` may see the account: every user sees a limited one, only its members see a private one. */
export function canSee(account: AccountDocument, viewer: AccountDocument | null): boolean {
  if (isVisibleTo(account.visibility, viewer)) return true
  if (viewer === null) return false
  return viewer.siteAdmin || viewer.id === account.id || isMemberOf(account.id, viewer)
}

/** Whether a user is a member of an organization, or of one of its teams. */
export function isMemberOf(organizationId: number, { memberships, teams }: AccountDocument): boolean {
  if (memberships[`${organizationId}`] !== undefined) return true
  return Object.values(teams).some((team) => team.organizationId === organizationId)
}

/** Whether the viewer may see all members of an organization. Other viewers see only public members. */
export const maySeeMembers = (organizationId: number, viewer: AccountDocument | null): boolean =>
  viewer !== null && (viewer.siteAdmin || isMemberOf(organizationId, viewer))

/** Whether the viewer may know that this user is a member of the organization. */
export const maySeeMembership = (
  organizationId: number,
  { publicOrganizationIds }: AccountDocument,
  viewer: AccountDocument | null,
): boolean => publicOrganizationIds.includes(organizationId) || maySeeMembers(organizationId, viewer)

/** What stands for a user in the `readers` of repositories, apart from everybody: the user, organizations and teams. */
export const readerIdsOf = ({ grantIds }: AccountDocument): readonly number[] => grantIds

/** The same for the teams of the user alone. */
export function teamReaderIdsOf({ teams }: AccountDocument): number[] {
  return Object.entries(teams).map(([id, { organizationId, allRepositories }]) =>
    allRepositories ? allRepositoriesOf(organizationId) : Number(id),
  )
}

/**
 * Whether everybody like the viewer may read the repository: it is public, and so is its owner. What a private
 * organization calls public is for its members.
 */
export function isOpenTo(
  { private: isPrivate, ownerVisibility }: Pick<RepositoryDocument, 'private' | 'ownerVisibility'>,
  viewer: AccountDocument | null,
): boolean {
  return !isPrivate && isVisibleTo(ownerVisibility, viewer)
}

/** What stands for everybody like the viewer in the `readers` of repositories. It agrees with `isOpenTo`. */
export const publicReaderIds = (viewer: AccountDocument | null) =>
  viewer === null ? [ANYONE] : [ANYONE, SIGNED_IN]
