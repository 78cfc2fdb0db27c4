/** Members and repositories of teams: `/teams/{id}/members`, `/teams/{id}/repos`, `/repos/{owner}/{repo}/teams/{team}`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { onRepository } from '../../access/repository-access.ts'
import {
  RepositoryTeamParams,
  repositoryInTeam,
  TeamMemberParams,
  TeamRepositoryParams,
  teamNamed,
} from '../../api/organizations/team-paths.ts'
import { isOwner, teamFor } from '../../api/organizations/teams.ts'
import { userNamed } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { organizations } from '../execution/aggregates.ts'
import { valueAt } from '../execution/id-map.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { requireMemberStays } from './deleted-members.ts'
import { requireOrganizationQuota, requireTeamQuota } from './membership-limits.ts'
import { decideRemoveMember, decideSetMember } from './organization.decider.ts'
import { decideAddTeamMember, decideRemoveTeamMember, decideTeamRepository } from './team.decider.ts'

export const teamMemberRoutes: Routes = (services) => {
  async function changeMember(
    request: FastifyRequest & { params: { id: string; username: string } },
    reply: FastifyReply,
    isIn: boolean,
  ) {
    const { team, organization, requester } = await teamFor(services, request, request.params.id)
    const account = await userNamed(services, request.params.username)
    const { id, login } = account
    const user = { id, login }
    // Check the limit only for a requester who may add members, so that other clients do not learn it.
    if (isIn && isOwner(requester, organization.id)) {
      if (team.kind === 'made') requireTeamQuota(account, team.team.id)
      else requireOrganizationQuota(account, organization.id)
    }
    const context = requestContext(request)
    await organizations.change(services, context, organization.id, 'team member', (state) => {
      if (team.kind === 'made') {
        const decide = isIn ? decideAddTeamMember : decideRemoveTeamMember
        return decide(state, requester, team.team.id, user)
      }
      if (isIn) return decideSetMember(state, requester, user, 'admin')
      const isOwner = state.status === 'active' && valueAt(state.members, id) === 'admin'
      return isOwner
        ? decideRemoveMember(state, requester, user)
        : refuse.notFound(`${login} is not an owner`)
    })
    if (isIn) await requireMemberStays(services, context, organization.id, user)
    await settled(services, context, reply)
    return reply.code(204).send(null)
  }

  async function changeRepository(
    request: FastifyRequest,
    reply: FastifyReply,
    at: { organizationId: number; teamId: number; repoId: number },
    isIn: boolean,
  ) {
    const actor = signedIn(request)
    const context = requestContext(request)
    await organizations.change(services, context, at.organizationId, 'team repository', (state) =>
      decideTeamRepository(state, actor, at.teamId, at.repoId, isIn),
    )
    await settled(services, context, reply)
    return reply.code(204).send(null)
  }

  return async (app) => {
    for (const method of ['PUT', 'DELETE'] as const) {
      const isIn = method === 'PUT'

      app.route({
        method,
        url: '/teams/:id/members/:username',
        ...route('organization', { params: TeamMemberParams, response: NO_CONTENT }),
        handler: async (request, reply) => changeMember(request, reply, isIn),
      })

      app.route({
        method,
        url: '/teams/:id/repos/:org/:repo',
        ...route('organization', { params: TeamRepositoryParams, response: NO_CONTENT }),
        handler: async (request, reply) => {
          const { team, organization } = await teamFor(services, request, request.params.id)
          const repository = await repositoryInTeam(services, request, organization, request.params)
          if (team.kind === 'owners') return reply.code(204).send(null)
          const at = { organizationId: organization.id, teamId: team.team.id, repoId: repository.id }
          return changeRepository(request, reply, at, isIn)
        },
      })

      app.route({
        method,
        url: '/repos/:owner/:repo/teams/:team',
        ...route('repository', {
          params: RepositoryTeamParams,
          response: NO_CONTENT,
          refusals: ['notAllowed'],
        }),
        handler: async (request, reply) => {
          const { repository } = await onRepository(services, request, 'admin')
          const { team, organization } = await teamNamed(services, repository, request.params.team)
          if (team.kind === 'owners') {
            throw new Refused(refuse.unprocessable('team: the Owners have all repositories'))
          }
          const { id, allRepositories } = team.team
          const has = allRepositories || repository.teams.includes(id)
          if (has === isIn) {
            throw new Refused(refuse.unprocessable(`team: ${isIn ? 'has it already' : 'does not have it'}`))
          }
          const at = { organizationId: organization.id, teamId: id, repoId: repository.id }
          return changeRepository(request, reply, at, isIn)
        },
      })
    }
  }
}
