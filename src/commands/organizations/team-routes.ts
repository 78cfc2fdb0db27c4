/** Creates, changes and deletes teams: `POST /orgs/{org}/teams`, `PATCH` and `DELETE /teams/{id}`. */
import { type Static, Type } from 'typebox'
import { OrganizationParams, organizationFor } from '../../api/organizations/organizations.ts'
import {
  isOwner,
  OWN_UNITS,
  TEAM_UNITS,
  TeamParams,
  TeamWire,
  teamFor,
  teamWire,
} from '../../api/organizations/teams.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { TeamSettings } from '../../events/catalog/organizations.ts'
import { idsStream, organizationStream } from '../../events/streams.ts'
import { teamFold } from '../../projections/models/organizations/teams.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { organizations } from '../execution/aggregates.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, requestContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { decideCreateTeam, decideDeleteTeam, decideEditTeam, NOT_ADMIN } from './team.decider.ts'

const PERMISSIONS = ['read', 'write', 'admin'] as const
type GivenPermission = (typeof PERMISSIONS)[number]

const fields = {
  description: Type.Optional(Type.String({ maxLength: 255 })),
  permission: Type.Optional(Type.Enum([...PERMISSIONS, ''])),
  includes_all_repositories: Type.Optional(Type.Boolean()),
  can_create_org_repo: Type.Optional(Type.Boolean()),
  units: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { maxItems: 64 })),
  units_map: Type.Optional(Type.Record(Type.String(), Type.String(), { maxProperties: 64 })),
}
const CreateTeamOption = Type.Object({ name: Type.String(), ...fields }, { title: 'CreateTeamOption' })
const EditTeamOption = Type.Object(
  { name: Type.Optional(Type.String()), ...fields },
  { title: 'EditTeamOption' },
)

function refused(field: string, problem: string): Refused {
  return new Refused(refuse.unprocessable(`${field}: ${problem}`, [`${field}: ${problem}`]))
}

/**
 * Returns the requested units and permission. A team has one permission for code, issues and pull requests here;
 * different ones are rejected. @throws Refused (unprocessable)
 */
function accessIn(body: Static<typeof EditTeamOption>): Partial<Pick<TeamSettings, 'permission' | 'units'>> {
  const map = body.units_map ?? {}
  const isMapped = Object.keys(map).length > 0
  // py-gitea names all units, those without a permission as `none`.
  const given = isMapped ? Object.keys(map) : body.units?.length ? body.units : undefined
  const unknown = given?.find((unit) => !TEAM_UNITS.includes(unit))
  if (unknown !== undefined) throw refused('units', `"${unknown}" is not one of ${TEAM_UNITS.join(', ')}`)
  const permission = PERMISSIONS.find((known) => known === body.permission)
  // As in Gitea, admins have all units.
  if (permission === 'admin') return { permission, units: [...TEAM_UNITS] }
  const units = given?.filter((unit) => map[unit] !== 'none')
  const missing = units && OWN_UNITS.find((unit) => !units.includes(unit))
  if (missing !== undefined) {
    throw refused('units', `a team has one permission for ${OWN_UNITS.join(', ')}; ${missing} is missing`)
  }
  const mapped = new Set(isMapped ? OWN_UNITS.map((unit) => map[unit]) : [])
  const [only] = mapped
  if (mapped.size > 1) throw refused('units_map', `${OWN_UNITS.join(', ')} must have the same permission`)
  const byMap = PERMISSIONS.find((known) => known === only)
  if (isMapped && byMap === undefined) throw refused('units_map', `must be one of ${PERMISSIONS.join(', ')}`)
  const wanted: GivenPermission | undefined = byMap ?? permission
  return { ...(wanted && { permission: wanted }), ...(units && { units: [...new Set(units)] }) }
}

function settingsIn(body: Static<typeof EditTeamOption>): Partial<TeamSettings> {
  const { name, description, includes_all_repositories, can_create_org_repo } = body
  return {
    ...(name && { name }),
    ...(description != null && { description }),
    ...(includes_all_repositories != null && { allRepositories: includes_all_repositories }),
    ...(can_create_org_repo != null && { canCreateRepositories: can_create_org_repo }),
    ...accessIn(body),
  }
}

/** Defaults of a new team. */
const NEW_TEAM = {
  description: '',
  permission: 'read',
  units: [...TEAM_UNITS],
  allRepositories: false,
  canCreateRepositories: false,
} satisfies Omit<TeamSettings, 'name'>

export const teamRoutes: Routes = (services) => async (app) => {
  const view = services.views.teams

  app.post(
    '/orgs/:org/teams',
    route('organization', {
      params: OrganizationParams,
      body: CreateTeamOption,
      response: { 201: TeamWire },
    }),
    async (request, reply) => {
      const actor = signedIn(request)
      const organization = await organizationFor(services, request, request.params.org)
      // Refuse before taking a number; the decision checks again.
      if (!isOwner(actor, organization.id)) throw new Refused(NOT_ADMIN)
      const settings = { ...NEW_TEAM, name: request.body.name, ...settingsIn(request.body) }
      const context = commandContext(request)
      // From the accounts' sequence, since `readers` of repositories hold both kinds of ids.
      const id = await takeNumber(services, context, idsStream('account'))
      await organizations.change(services, context, organization.id, 'create team', (state) =>
        decideCreateTeam(state, actor, id, settings),
      )
      await settled(services, context, reply)
      const source = { id, stream: organizationStream(organization.id), view, fold: teamFold }
      const team = await loadDocument(services, 'team', source)
      return reply.code(201).send(teamWire({ kind: 'made', team }, organization))
    },
  )

  app.patch(
    '/teams/:id',
    route('organization', { params: TeamParams, body: EditTeamOption, response: { 200: TeamWire } }),
    async (request, reply) => {
      const { team, organization, requester } = await teamFor(services, request, request.params.id)
      if (!isOwner(requester, organization.id)) throw new Refused(NOT_ADMIN)
      const wanted = settingsIn(request.body)
      if (team.kind === 'owners') throw refused('id', 'the Owners cannot be changed')
      const context = requestContext(request)
      await organizations.change(services, context, organization.id, 'edit team', (state) =>
        decideEditTeam(state, requester, team.team.id, wanted),
      )
      await settled(services, context, reply)
      const edited = await view.get(`${team.team.id}`)
      if (edited === undefined) throw notFoundIn(view, 'team not found')
      return teamWire({ kind: 'made', team: edited }, organization)
    },
  )

  app.delete(
    '/teams/:id',
    route('organization', { params: TeamParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { team, organization, requester } = await teamFor(services, request, request.params.id)
      if (team.kind === 'owners') throw refused('id', 'the Owners cannot be deleted')
      const context = requestContext(request)
      await organizations.change(services, context, organization.id, 'delete team', (state) =>
        decideDeleteTeam(state, requester, team.team.id),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
