/** Creates, changes and deletes labels: `/repos/{owner}/{repo}/labels` and `/orgs/{org}/labels`. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository, type RepositoryPath } from '../../access/repository-access.ts'
import {
  type LabelOwner,
  LabelParams,
  LabelWire,
  labelIdIn,
  labelWire,
  OrganizationLabelParams,
  organizationAsLabelOwner,
  repositoryAsLabelOwner,
} from '../../api/labels/labels.ts'
import { OrganizationParams, organizationFor } from '../../api/organizations/organizations.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import type { LabelSettings } from '../../events/catalog/labels.ts'
import { idsStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { labels } from '../execution/aggregates.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import {
  decideCreateLabel,
  decideDeleteLabel,
  decideEditLabel,
  type LabelState,
  normalLabel,
} from './label.decider.ts'

/** Maximum length in Gitea's database. */
const text = { maxLength: 255 }
const OptionalText = Type.Optional(Type.String(text))
const OptionalFlag = Type.Optional(Type.Boolean())

/** Null is the same as absent: Go clients send it for a field that does not change. */
const EditLabelOption = Type.Object(
  {
    name: OptionalText,
    color: OptionalText,
    description: OptionalText,
    exclusive: OptionalFlag,
    is_archived: OptionalFlag,
  },
  { title: 'EditLabelOption' },
)

const CreateLabelOption = Type.Object(
  {
    ...EditLabelOption.properties,
    name: Type.String(text),
    color: Type.String(),
  },
  { title: 'CreateLabelOption' },
)

function changesOf(body: Static<typeof EditLabelOption>): Partial<LabelSettings> {
  const changes: Partial<LabelSettings> = {}
  if (body.name != null) changes.name = body.name
  if (body.color != null) changes.color = body.color
  if (body.description != null) changes.description = body.description
  if (body.exclusive != null) changes.exclusive = body.exclusive
  if (body.is_archived != null) changes.archived = body.is_archived
  return changes
}

/** Returns the repository or organization in the path, if the requester may change its labels. */
async function labelOwnerFor(
  services: Services,
  request: FastifyRequest,
  path: RepositoryPath | Static<typeof OrganizationParams>,
): Promise<LabelOwner> {
  if (!('org' in path)) {
    const { requester, method, routeOptions } = request
    const { repository } = await onRepository(
      services,
      { requester, method, routeOptions, params: path },
      'write',
    )
    request.repositoryId = repository.id
    return repositoryAsLabelOwner(repository)
  }
  const organization = await organizationFor(services, request, path.org)
  const { siteAdmin, memberships } = signedIn(request)
  const permission = memberships[`${organization.id}`]
  if (!siteAdmin && permission !== 'write' && permission !== 'admin') {
    throw new Refused(
      refuse.forbidden('only members with write permission may change the labels of an organization'),
    )
  }
  return organizationAsLabelOwner(organization)
}

/** Kinds of owners, with the paths of their labels. */
const OWNERS = [
  { scope: 'issue', url: '/repos/:owner/:repo/labels', all: RepositoryParams, one: LabelParams },
  { scope: 'organization', url: '/orgs/:org/labels', all: OrganizationParams, one: OrganizationLabelParams },
] as const

export const labelRoutes: Routes = (services) => {
  /** Builds the wire form from the label's own events, since the read model may lag. */
  function wireOf(state: LabelState, owner: LabelOwner): Static<typeof LabelWire> {
    if (state.status !== 'active') throw new Refused(refuse.notFound('label not found'))
    return labelWire(state.label, owner, services.publicUrl())
  }

  return async (app) => {
    for (const { scope, url, all, one } of OWNERS) {
      app.post(
        url,
        route(scope, { params: all, body: CreateLabelOption, response: { 201: LabelWire } }),
        async (request, reply) => {
          const owner = await labelOwnerFor(services, request, request.params)
          const { name, color } = request.body
          const settings = { name, color, description: '', exclusive: false, archived: false }
          const wanted = { ...settings, ...changesOf(request.body) }
          // Refuse before taking a number.
          const normal = normalLabel(wanted)
          if (isRefusal(normal)) throw new Refused(normal)
          const context = commandContext(request)
          const id = await takeNumber(services, context, idsStream('label'))
          const state = await labels.change(services, context, id, 'create', (state) =>
            decideCreateLabel(state, id, owner.scope, wanted),
          )
          await settled(services, context, reply)
          return reply.code(201).send(wireOf(state, owner))
        },
      )

      app.patch(
        `${url}/:id`,
        route(scope, { params: one, body: EditLabelOption, response: { 200: LabelWire } }),
        async (request, reply) => {
          const owner = await labelOwnerFor(services, request, request.params)
          const id = await labelIdIn(services, owner.scope, request.params.id)
          if (id === undefined) throw new Refused(refuse.notFound('label not found'))
          const context = commandContext(request)
          const state = await labels.change(services, context, id, 'edit', (state) =>
            decideEditLabel(state, owner.scope, changesOf(request.body)),
          )
          await settled(services, context, reply)
          return wireOf(state, owner)
        },
      )

      app.delete(
        `${url}/:id`,
        route(scope, { params: one, response: NO_CONTENT }),
        async (request, reply) => {
          const owner = await labelOwnerFor(services, request, request.params)
          const id = await labelIdIn(services, owner.scope, request.params.id)
          if (id === undefined) return reply.code(204).send(null)
          const context = commandContext(request)
          await labels.change(services, context, id, 'delete', (state) =>
            decideDeleteLabel(state, owner.scope),
          )
          await settled(services, context, reply)
          return reply.code(204).send(null)
        },
      )
    }
  }
}
