/** Organizations on the wire, and the look-up of the organization in a path. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { mayCreateIn } from '../../access/access.ts'
import { canSee } from '../../access/visibility.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'

export const OrganizationWire = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    username: Type.String(),
    full_name: Type.String(),
    email: Type.String(),
    avatar_url: Type.String(),
    description: Type.String(),
    website: Type.String(),
    location: Type.String(),
    visibility: Type.String(),
    repo_admin_change_team_access: Type.Boolean(),
  },
  { title: 'Organization' },
)

export const OrganizationParams = Type.Object({ org: Type.String() })

export const MemberParams = Type.Object({ org: Type.String(), username: Type.String() })

export function organizationWire(organization: AccountDocument): Static<typeof OrganizationWire> {
  return {
    id: organization.id,
    name: organization.login,
    username: organization.login,
    full_name: organization.fullName,
    email: organization.email,
    avatar_url: '',
    description: organization.description,
    website: organization.website,
    location: organization.location,
    visibility: organization.visibility,
    repo_admin_change_team_access: false,
  }
}

export const OrganizationPermissionsWire = Type.Object(
  {
    is_owner: Type.Boolean(),
    is_admin: Type.Boolean(),
    can_write: Type.Boolean(),
    can_read: Type.Boolean(),
    can_create_repository: Type.Boolean(),
  },
  { title: 'OrganizationPermissions' },
)

/** Returns a user's permissions in an organization, from the membership and the teams. `user`: null when anonymous. */
export function organizationPermissionsWire(
  { id }: AccountDocument,
  user: AccountDocument | null,
): Static<typeof OrganizationPermissionsWire> {
  const teams = Object.values(user?.teams ?? {}).filter(({ organizationId }) => organizationId === id)
  const own = user?.memberships[`${id}`]
  const granted = new Set([...teams.map(({ permission }) => permission), ...(own === undefined ? [] : [own])])
  const isAdmin = granted.has('admin')
  return {
    is_owner: own === 'admin',
    is_admin: isAdmin,
    can_write: isAdmin || granted.has('write'),
    can_read: granted.size > 0,
    can_create_repository: user !== null && mayCreateIn(id, { ...user, siteAdmin: false }),
  }
}

/** Returns the organization in the path, if the requester may see it. @throws Refused (not found) */
export async function organizationFor(
  services: Services,
  request: FastifyRequest,
  login: string,
): Promise<AccountDocument> {
  const account = await services.views.accounts.findOne({ loginKey: login.toLowerCase() })
  if (account?.kind !== 'organization' || !canSee(account, request.requester)) {
    throw notFoundIn(services.views.accounts, 'organization not found')
  }
  return account
}
