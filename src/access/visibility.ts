/** Visibility of accounts, and public access to repositories. Pure. */
import type { Visibility } from '../events/catalog/organizations.ts'
import {
  ANYONE,
  allRepositoriesOf,
  type RepositoryDocument,
  SIGNED_IN,
} from '../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'
import { accountRules } from './present-rules.ts'

/** Whether a viewer without a permission may see an account; null is an anonymous viewer. */
function isVisibleTo(visibility: Visibility, viewer: AccountDocument | null): boolean {
  return visibility === 'public' || (visibility === 'limited' && viewer !== null)
}

/** Returns the visibilities of organizations that are listed for a non-member, as in Gitea. */
export function visibilitiesFor(viewer: AccountDocument | null): Visibility[] {
  if (viewer?.siteAdmin) return ['public', 'limited', 'private']
  return viewer === null ? ['public'] : ['public', 'limited']
}

/** Whether `viewer` may see the account: every user sees a limited one, only its members see a private one. */
export function canSee(account: AccountDocument, viewer: AccountDocument | null): boolean {
  if (isVisibleTo(accountRules.of(account).visibility, viewer)) return true
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

/** Returns the ids that stand for a user in `readers` of repositories: the user, organizations and teams. */
export const readerIdsOf = ({ grantIds }: AccountDocument): readonly number[] => grantIds

/** Returns only those ids that stand for the user's teams. */
export function teamReaderIdsOf({ teams }: AccountDocument): number[] {
  return Object.entries(teams).map(([id, { organizationId, allRepositories }]) =>
    allRepositories ? allRepositoriesOf(organizationId) : Number(id),
  )
}

/**
 * Whether the public of the viewer's kind may read the repository: it and its owner are public. A public repository of
 * a private organization is for its members.
 */
export function isOpenTo(
  { private: isPrivate, ownerVisibility }: Pick<RepositoryDocument, 'private' | 'ownerVisibility'>,
  viewer: AccountDocument | null,
): boolean {
  return !isPrivate && isVisibleTo(ownerVisibility, viewer)
}

/** Returns the ids in `readers` that stand for the public of the viewer's kind. It agrees with `isOpenTo`. */
export const publicReaderIds = (viewer: AccountDocument | null) =>
  viewer === null ? [ANYONE] : [ANYONE, SIGNED_IN]
