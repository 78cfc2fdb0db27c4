/** Path parameters of teams: their members, their repositories, and the teams of a repository. */
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { repositoryFor } from '../../access/repository-access.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { ownerOf, RepositoryParams } from '../repositories/repositories.ts'
import { type Team, TeamParams, teamsOf } from './teams.ts'

export const TeamMemberParams = Type.Object({ ...TeamParams.properties, username: Type.String() })
export const TeamRepositoryParams = Type.Object({
  ...TeamParams.properties,
  org: Type.String(),
  repo: Type.String(),
})
export const RepositoryTeamParams = Type.Object({ ...RepositoryParams.properties, team: Type.String() })

/** Returns the repository in a path, which the team's organization must own. @throws Refused (not found) */
export async function repositoryInTeam(
  services: Services,
  { requester }: Pick<FastifyRequest, 'requester'>,
  organization: AccountDocument,
  { org, repo }: { org: string; repo: string },
): Promise<RepositoryDocument> {
  const { repository } = await repositoryFor(services, requester, { owner: org, repo }, 'read')
  if (repository.ownerId === organization.id) return repository
  throw notFoundIn(services.views.repositories, 'repository not found')
}

/** Returns the organization that owns a repository. @throws Refused (not allowed) when a user owns it */
export async function teamOwnerOf(
  services: Services,
  repository: RepositoryDocument,
): Promise<AccountDocument> {
  if (repository.ownerKind === 'organization') return ownerOf(services, repository)
  throw new Refused(refuse.notAllowed('the repository is not owned by an organization'))
}

/**
 * Returns the teams with these names in a repository's organization, each once. `unknown`: the first name without a team.
 * One look-up. @throws Refused (unprocessable), with the field, when a user owns the repository
 */
export async function teamsNamed(
  services: Services,
  repository: RepositoryDocument,
  field: string,
  names: readonly string[],
): Promise<{ teams: Team[]; unknown?: string }> {
  if (names.length === 0) return { teams: [] }
  if (repository.ownerKind === 'user') {
    throw new Refused(refuse.unprocessable(`${field}: the repository is not owned by an organization`))
  }
  const all = await teamsOf(services, await ownerOf(services, repository))
  const byName = new Map(all.map((team) => [keyOf(team), team]))
  const keys = [...new Set(names.map((name) => name.toLowerCase()))]
  const unknown = names.find((name) => !byName.has(name.toLowerCase()))
  const teams = keys.flatMap((key) => byName.get(key) ?? [])
  return unknown === undefined ? { teams } : { teams, unknown }
}

/**
 * Returns the names of teams of a repository's organization, by their ids, without deleted teams and teams of a former
 * owner. One look-up.
 */
export async function teamNames(
  { views }: Services,
  { ownerId }: RepositoryDocument,
  ids: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const found = ids.length === 0 ? [] : await views.teams.getMany([...new Set(ids)].map(String))
  const own = found.filter(({ organizationId }) => organizationId === ownerId)
  return new Map([[ownerId, 'Owners'], ...own.map(({ id, name }) => [id, name] as const)])
}

const keyOf = (team: Team) => (team.kind === 'owners' ? 'owners' : team.team.name.toLowerCase())

/** Returns the team with that name in a repository's organization. @throws Refused (not found, not allowed) */
export async function teamNamed(
  services: Services,
  repository: RepositoryDocument,
  name: string,
): Promise<{ team: Team; organization: AccountDocument }> {
  const organization = await teamOwnerOf(services, repository)
  const key = name.toLowerCase()
  const teams = await teamsOf(services, organization)
  const team = teams.find((one) => keyOf(one) === key)
  if (team === undefined) throw notFoundIn(services.views.teams, 'team not found')
  return { team, organization }
}
