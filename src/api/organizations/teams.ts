/** Teams on the wire, and the look-up of the team in a path. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { canSee, isMemberOf } from '../../access/visibility.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { TeamDocument } from '../../projections/models/organizations/teams.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn, type View } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { OrganizationWire, organizationFor, organizationWire } from './organizations.ts'

/** Gitea's names for the parts of a repository that teams can have permissions for. Mergelog has only the first ones. */
export const OWN_UNITS = ['repo.code', 'repo.issues', 'repo.pulls'] as const
export const TEAM_UNITS: readonly string[] = [
  ...OWN_UNITS,
  'repo.releases',
  'repo.wiki',
  'repo.ext_wiki',
  'repo.ext_issues',
  'repo.projects',
  'repo.packages',
  'repo.actions',
]

/** A team without its organization. */
export const PlainTeamWire = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    description: Type.String(),
    permission: Type.String({ description: 'Permission: read, write, admin or owner' }),
    includes_all_repositories: Type.Boolean(),
    can_create_org_repo: Type.Boolean(),
    units: Type.Array(Type.String()),
    units_map: Type.Record(Type.String(), Type.String()),
  },
  { title: 'PlainTeam' },
)

export const TeamWire = Type.Object(
  { ...PlainTeamWire.properties, organization: OrganizationWire },
  { title: 'Team' },
)

export const TeamParams = Type.Object({ id: Type.String() })

/** A team, or the Owners: the admins of the organization, who need no document. */
export type Team = { kind: 'made'; team: TeamDocument } | { kind: 'owners' }

export const teamName = (team: Team): string => (team.kind === 'owners' ? 'Owners' : team.team.name)

export const teamWire = (team: Team, organization: AccountDocument): Static<typeof TeamWire> => ({
  ...plainTeamWire(team, organization.id),
  organization: organizationWire(organization),
})

function plainTeamWire(team: Team, organizationId: number): Static<typeof PlainTeamWire> {
  const isOwners = team.kind === 'owners'
  const permission = isOwners ? 'owner' : team.team.permission
  const units = isOwners ? [...TEAM_UNITS] : team.team.units
  return {
    id: isOwners ? organizationId : team.team.id,
    name: teamName(team),
    description: isOwners ? '' : team.team.description,
    permission,
    includes_all_repositories: isOwners || team.team.allRepositories,
    can_create_org_repo: isOwners || team.team.canCreateRepositories,
    units,
    units_map: Object.fromEntries(units.map((unit) => [unit, permission])),
  }
}

/**
 * Returns the teams with these ids, in wire form, without deleted teams and teams of a former owner. `repositories`: those
 * of the answer, whose organizations have Owners. One look-up.
 */
export async function teamsById(
  teams: Pick<View<TeamDocument>, 'getMany'>,
  ids: readonly number[],
  repositories: readonly Pick<RepositoryDocument, 'ownerId' | 'ownerKind'>[],
): Promise<ReadonlyMap<number, Static<typeof PlainTeamWire>>> {
  const made = ids.length === 0 ? [] : await teams.getMany([...new Set(ids)].map(String))
  const owners = new Set(
    repositories.flatMap(({ ownerId, ownerKind }) => (ownerKind === 'organization' ? [ownerId] : [])),
  )
  const own = made.filter(({ organizationId }) => owners.has(organizationId))
  return new Map([
    ...[...owners].map((ownerId) => [ownerId, plainTeamWire({ kind: 'owners' }, ownerId)] as const),
    ...own.map((team) => [team.id, plainTeamWire({ kind: 'made', team }, team.organizationId)] as const),
  ])
}

/** Whether an account may administer an organization: as an Owner, or as a site admin. */
export const isOwner = ({ siteAdmin, memberships }: AccountDocument, organizationId: number) =>
  siteAdmin || memberships[`${organizationId}`] === 'admin'

/** Returns the teams of an organization, the Owners first. There are at most a few hundred. */
export async function teamsOf({ views }: Services, organization: AccountDocument): Promise<Team[]> {
  const teams = await views.teams.find({ organizationId: organization.id }, { sort: [['name', 1]] })
  return [{ kind: 'owners' }, ...teams.map((team): Team => ({ kind: 'made', team }))]
}

/** Returns the organization in the path to a member. @throws Refused (not found, unauthenticated, forbidden) */
export async function organizationOfMember(
  services: Services,
  request: FastifyRequest,
  login: string,
): Promise<AccountDocument> {
  const organization = await organizationFor(services, request, login)
  const requester = signedIn(request)
  if (requester.siteAdmin || isMemberOf(organization.id, requester)) return organization
  throw new Refused(refuse.forbidden('only members of the organization may see its teams'))
}

/**
 * Returns the team in the path to its members and the admins of its organization. Other members of the organization get
 * 403, and all others 404. @throws Refused
 */
export async function teamFor(
  { views }: Services,
  request: FastifyRequest,
  idText: string,
): Promise<{ team: Team; organization: AccountDocument; requester: AccountDocument }> {
  const requester = signedIn(request)
  const id = pathNumber(idText) ?? 0
  const made = await views.teams.get(`${id}`)
  const organization = await views.accounts.get(`${made?.organizationId ?? id}`)
  const isFound =
    organization?.kind === 'organization' && !organization.deleted && canSee(organization, requester)
  if (!isFound || (!requester.siteAdmin && !isMemberOf(organization.id, requester))) {
    throw notFoundIn(views.teams, 'team not found')
  }
  const isIn = requester.teams[`${id}`] !== undefined || isOwner(requester, organization.id)
  if (!isIn) throw new Refused(refuse.forbidden('only members of the team may see it'))
  return {
    team: made === undefined ? { kind: 'owners' } : { kind: 'made', team: made },
    organization,
    requester,
  }
}
