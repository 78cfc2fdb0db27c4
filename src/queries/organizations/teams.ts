/** Reading teams: `/orgs/{org}/teams`, `/teams/{id}`, their members and repositories, `/user/teams`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { accessTo, isPublicReaderOnly } from '../../access/access.ts'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { OrganizationParams } from '../../api/organizations/organizations.ts'
import {
  RepositoryTeamParams,
  repositoryInTeam,
  TeamMemberParams,
  TeamRepositoryParams,
  teamNamed,
  teamOwnerOf,
} from '../../api/organizations/team-paths.ts'
import {
  organizationOfMember,
  type Team,
  TeamParams,
  TeamWire,
  teamFor,
  teamsOf,
  teamWire,
} from '../../api/organizations/teams.ts'
import {
  RepositoryParams,
  RepositoryWire,
  repositoryPage,
  repositoryWires,
} from '../../api/repositories/repositories.ts'
import { UserWire, userNamed, userWire } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { PageQuery } from '../../http/requests/paging.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, pagedList, pagedRows } from '../paged-list.ts'

/** Whether a team has a repository of its organization. */
const hasRepository = (team: Team, { teams }: RepositoryDocument) =>
  team.kind === 'owners' || team.team.allRepositories || teams.includes(team.team.id)

function isMember(team: Team, { id }: AccountDocument, user: AccountDocument): boolean {
  return team.kind === 'owners'
    ? user.memberships[`${id}`] === 'admin'
    : user.teams[`${team.team.id}`] !== undefined
}

export function teamQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { accounts, repositories } = services.views

  /** Returns the repository in the path, for requesters who may see its collaborators. @throws Refused */
  async function withTeams(request: RepositoryRequest) {
    const { repository } = await onRepository(services, request, 'read')
    const requester = signedIn(request)
    if (isPublicReaderOnly(repository, requester)) {
      throw new Refused(refuse.forbidden('only collaborators of the repository may see its teams'))
    }
    return repository
  }

  return async (app) => {
    const tags = ['organization']
    const config = { scope: 'organization' } as const

    app.get(
      '/orgs/:org/teams',
      { config, schema: { tags, params: OrganizationParams, ...listSchema(TeamWire) } },
      async (request, reply) => {
        const organization = await organizationOfMember(services, request, request.params.org)
        const teams = await teamsOf(services, organization)
        return pagedRows(services, request, reply, teams).map((team) => teamWire(team, organization))
      },
    )

    app.get(
      '/orgs/:org/teams/search',
      {
        config,
        schema: {
          tags,
          params: OrganizationParams,
          querystring: Type.Object({
            q: OptionalText('Part of the name'),
            include_desc: OptionalText('Whether q may also be in the description; default true'),
            ...PageQuery,
          }),
          response: { 200: Type.Object({ ok: Type.Boolean(), data: Type.Array(TeamWire) }) },
        },
      },
      async (request, reply) => {
        const organization = await organizationOfMember(services, request, request.params.org)
        const requester = signedIn(request)
        const { q = '', include_desc } = request.query
        const keyword = q.trim().toLowerCase()
        const all = await teamsOf(services, organization)
        const found = all
          // As in Gitea, only site admins find teams of other users.
          .filter((team) => requester.siteAdmin || isMember(team, organization, requester))
          .map((team) => teamWire(team, organization))
          .filter(
            ({ name, description }) =>
              name.toLowerCase().includes(keyword) ||
              (flagOf(include_desc, true) && description.toLowerCase().includes(keyword)),
          )
        return { ok: true, data: pagedRows(services, request, reply, found) }
      },
    )

    app.get(
      '/user/teams',
      { config: { scope: 'user' }, schema: { tags, ...listSchema(TeamWire) } },
      async (request, reply) => {
        const requester = signedIn(request)
        const { memberships } = requester
        const teams = await services.views.teams.getMany(Object.keys(requester.teams))
        const owned = Object.keys(memberships).filter((id) => memberships[id] === 'admin')
        const of = await accounts.getMany([
          ...new Set([...owned, ...teams.map(({ organizationId }) => `${organizationId}`)]),
        ])
        const all = of.flatMap((organization) => [
          ...(owned.includes(`${organization.id}`) ? [teamWire({ kind: 'owners' }, organization)] : []),
          ...teams
            .filter(({ organizationId }) => organizationId === organization.id)
            .map((team) => teamWire({ kind: 'made', team }, organization)),
        ])
        return pagedRows(services, request, reply, all)
      },
    )

    app.get(
      '/teams/:id',
      { config, schema: { tags, params: TeamParams, response: { 200: TeamWire } } },
      async (request) => {
        const { team, organization } = await teamFor(services, request, request.params.id)
        return teamWire(team, organization)
      },
    )

    app.get(
      '/teams/:id/members',
      { config, schema: { tags, params: TeamParams, ...listSchema(UserWire) } },
      async (request, reply) => {
        const { team, organization, requester } = await teamFor(services, request, request.params.id)
        const found = await pagedList(services, request, reply, {
          view: accounts,
          filter: team.kind === 'owners' ? { ownedIds: organization.id } : { teamIds: team.team.id },
          sort: [['loginKey', 1]],
        })
        return found.map((user) => userWire(user, services.publicUrl(), requester))
      },
    )

    app.get(
      '/teams/:id/members/:username',
      { config, schema: { tags, params: TeamMemberParams, response: { 200: UserWire } } },
      async (request) => {
        const { team, organization, requester } = await teamFor(services, request, request.params.id)
        const user = await userNamed(services, request.params.username)
        if (isMember(team, organization, user)) return userWire(user, services.publicUrl(), requester)
        throw new Refused(refuse.notFound(`${user.login} is not in the team`))
      },
    )

    app.get(
      '/teams/:id/repos',
      { config, schema: { tags, params: TeamParams, ...listSchema(RepositoryWire) } },
      async (request, reply) => {
        const { team, organization, requester } = await teamFor(services, request, request.params.id)
        const ownerId = organization.id
        const filter: Filter<RepositoryDocument> =
          team.kind === 'owners' || team.team.allRepositories ? { ownerId } : { ownerId, teams: team.team.id }
        const found = await pagedList(services, request, reply, {
          view: repositories,
          filter,
          sort: [['key', 1]],
        })
        return repositoryWires(services, found, requester)
      },
    )

    app.get(
      '/teams/:id/repos/:org/:repo',
      { config, schema: { tags, params: TeamRepositoryParams, response: { 200: RepositoryWire } } },
      async (request) => {
        const { team, organization, requester } = await teamFor(services, request, request.params.id)
        const repository = await repositoryInTeam(services, request, organization, request.params)
        if (!hasRepository(team, repository)) throw new Refused(refuse.notFound('the team does not have it'))
        return repositoryPage(services, repository, accessTo(repository, requester), requester)
      },
    )

    app.get(
      '/repos/:owner/:repo/teams',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          ...listSchema(TeamWire),
          refusals: ['notAllowed'],
        },
      },
      async (request, reply) => {
        const repository = await withTeams(request)
        const organization = await teamOwnerOf(services, repository)
        const teams = (await teamsOf(services, organization)).filter((team) =>
          hasRepository(team, repository),
        )
        return pagedRows(services, request, reply, teams).map((team) => teamWire(team, organization))
      },
    )

    app.get(
      '/repos/:owner/:repo/teams/:team',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryTeamParams,
          response: { 200: TeamWire },
          refusals: ['notAllowed'],
        },
      },
      async (request) => {
        const repository = await withTeams(request)
        const { team, organization } = await teamNamed(services, repository, request.params.team)
        if (!hasRepository(team, repository)) throw new Refused(refuse.notFound('the team does not have it'))
        return teamWire(team, organization)
      },
    )
  }
}
