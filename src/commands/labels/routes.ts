/** Creates, changes and deletes labels: `/repos/{owner}/{repo}/labels` and `/orgs/{org}/labels`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { LabelSettings } from '../../events/domain-events.ts'
import { idsStream, labelStream } from '../../events/streams.ts'
import { pathNumber } from '../../http/path-number.ts'
import { isRefusal, Refused, refuse } from '../../refusal.ts'
import { type RepositoryPath, repositoryFor } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import {
  type LabelOwner,
  LabelParams,
  LabelWire,
  labelWire,
  OrganizationLabelParams,
  organizationAsLabelOwner,
  repositoryAsLabelOwner,
} from '../../wire/labels.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { OrganizationParams, organizationFor } from '../../wire/organizations.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { execute } from '../execute.ts'
import { commandContext, executeRequest, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import {
  decideCreateLabel,
  decideDeleteLabel,
  decideEditLabel,
  type LabelState,
  labelDecider,
  normalLabel,
} from './label.ts'

/** As long as in Gitea's database. */
const text = { maxLength: 255 }
const OptionalText = GivenOrNull(Type.String(text))
const OptionalFlag = GivenOrNull(Type.Boolean())

const CreateLabelOption = Type.Object({
  name: Type.String(text),
  color: Type.String(),
  description: OptionalText,
  exclusive: OptionalFlag,
  is_archived: OptionalFlag,
})

/** Null is the same as absent: Go clients send it for a field that does not change. */
const EditLabelOption = Type.Object({
  name: OptionalText,
  color: OptionalText,
  description: OptionalText,
  exclusive: OptionalFlag,
  is_archived: OptionalFlag,
})

function changesOf(body: Static<typeof EditLabelOption>): Partial<LabelSettings> {
  const changes: Partial<LabelSettings> = {}
  if (body.name != null) changes.name = body.name
  if (body.color != null) changes.color = body.color
  if (body.description != null) changes.description = body.description
  if (body.exclusive != null) changes.exclusive = body.exclusive
  if (body.is_archived != null) changes.archived = body.is_archived
  return changes
}

export function labelRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events } = services

  async function repositoryToWrite(request: FastifyRequest, path: RepositoryPath): Promise<LabelOwner> {
    const { repository } = await repositoryFor(services, request.requester, path, 'write')
    return repositoryAsLabelOwner(repository)
  }

  async function organizationToWrite(request: FastifyRequest, login: string): Promise<LabelOwner> {
    const organization = await organizationFor(services, request, login)
    const { siteAdmin, memberships } = signedIn(request)
    const permission = memberships[`${organization.id}`]
    if (!siteAdmin && permission !== 'write' && permission !== 'admin') {
      throw new Refused(refuse.forbidden('only members who may write change the labels of an organization'))
    }
    return organizationAsLabelOwner(organization)
  }

  /** From the label's own events, not from the projection, which may lag. */
  function wireOf(state: LabelState, owner: LabelOwner): Static<typeof LabelWire> {
    if (state.status !== 'active') throw new Refused(refuse.notFound('label not found'))
    return labelWire(state.label, owner, services.publicUrl())
  }

  async function create(
    request: FastifyRequest,
    reply: FastifyReply,
    owner: LabelOwner,
    body: Static<typeof CreateLabelOption>,
  ) {
    const settings: LabelSettings = {
      name: body.name,
      color: body.color,
      description: body.description ?? '',
      exclusive: body.exclusive ?? false,
      archived: body.is_archived ?? false,
    }
    // Refuse before a number is taken.
    const normal = normalLabel(settings)
    if (isRefusal(normal)) throw new Refused(normal)
    const context = commandContext(request)
    const id = await takeNumber(events, context, idsStream('label'))
    const state = await execute(events, context, {
      stream: labelStream(id),
      step: 'create',
      decider: labelDecider,
      decide: (state) => decideCreateLabel(state, id, owner.scope, settings),
    })
    await settled(services, context, reply)
    return reply.code(201).send(wireOf(state, owner))
  }

  async function edit(
    request: FastifyRequest,
    reply: FastifyReply,
    owner: LabelOwner,
    id: string,
    body: Static<typeof EditLabelOption>,
  ) {
    const state = await executeRequest(services, request, reply, {
      stream: streamOf(id),
      step: 'edit',
      decider: labelDecider,
      decide: (state) => decideEditLabel(state, owner.scope, changesOf(body)),
    })
    return wireOf(state, owner)
  }

  async function remove(request: FastifyRequest, reply: FastifyReply, owner: LabelOwner, id: string) {
    await executeRequest(services, request, reply, {
      stream: streamOf(id),
      step: 'delete',
      decider: labelDecider,
      decide: (state) => decideDeleteLabel(state, owner.scope),
    })
    return reply.code(204).send(null)
  }

  return async (app) => {
    const repository = { scope: 'issue' } as const
    const organization = { scope: 'organization' } as const
    const issue = ['issue']
    const org = ['organization']
    const creating = { body: CreateLabelOption, response: { 201: LabelWire } }
    const editing = { body: EditLabelOption, response: { 200: LabelWire } }
    const deleting = { response: { 204: Type.Null() } }

    app.post(
      '/repos/:owner/:repo/labels',
      { config: repository, schema: { ...creating, tags: issue, params: RepositoryParams } },
      async (request, reply) =>
        create(request, reply, await repositoryToWrite(request, request.params), request.body),
    )
    app.patch(
      '/repos/:owner/:repo/labels/:id',
      { config: repository, schema: { ...editing, tags: issue, params: LabelParams } },
      async (request, reply) => {
        const owner = await repositoryToWrite(request, request.params)
        return edit(request, reply, owner, request.params.id, request.body)
      },
    )
    app.delete(
      '/repos/:owner/:repo/labels/:id',
      { config: repository, schema: { ...deleting, tags: issue, params: LabelParams } },
      async (request, reply) =>
        remove(request, reply, await repositoryToWrite(request, request.params), request.params.id),
    )

    app.post(
      '/orgs/:org/labels',
      { config: organization, schema: { ...creating, tags: org, params: OrganizationParams } },
      async (request, reply) =>
        create(request, reply, await organizationToWrite(request, request.params.org), request.body),
    )
    app.patch(
      '/orgs/:org/labels/:id',
      { config: organization, schema: { ...editing, tags: org, params: OrganizationLabelParams } },
      async (request, reply) => {
        const owner = await organizationToWrite(request, request.params.org)
        return edit(request, reply, owner, request.params.id, request.body)
      },
    )
    app.delete(
      '/orgs/:org/labels/:id',
      { config: organization, schema: { ...deleting, tags: org, params: OrganizationLabelParams } },
      async (request, reply) =>
        remove(request, reply, await organizationToWrite(request, request.params.org), request.params.id),
    )
  }
}

/** The stream of the label in a path. @throws Refused (not found) when the id is not a number */
function streamOf(id: string): string {
  const number = pathNumber(id)
  if (number === undefined) throw new Refused(refuse.notFound('label not found'))
  return labelStream(number)
}
