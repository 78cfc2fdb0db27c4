/** Creates, changes and deletes milestones: `/repos/{owner}/{repo}/milestones`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { decode } from '../../events/codec.ts'
import type { MilestoneSettings } from '../../events/domain-events.ts'
import { idsStream, milestoneStream } from '../../events/streams.ts'
import { type MilestoneDocument, milestoneFold } from '../../projections/milestones.ts'
import { isRefusal, Refused, refuse } from '../../refusal.ts'
import { onRepository } from '../../rights/repository-access.ts'
import type { Services } from '../../services.ts'
import { MilestoneParams, MilestoneWire, milestoneFor, milestoneWire } from '../../wire/milestones.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { execute } from '../execute.ts'
import { commandContext, executeRequest, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import {
  decideCreateMilestone,
  decideDeleteMilestone,
  decideEditMilestone,
  milestoneDecider,
  normalMilestone,
} from './milestone.ts'

/** As long as in Gitea's database. */
const OptionalTitle = GivenOrNull(Type.String({ maxLength: 255 }))
const OptionalText = GivenOrNull(Type.String({ maxLength: 65_535 }))
const OptionalString = GivenOrNull(Type.String())

const CreateMilestoneOption = Type.Object({
  title: Type.String({ maxLength: 255 }),
  description: OptionalText,
  due_on: OptionalString,
  state: OptionalString,
})

/** Null and an empty title are the same as absent: Go clients send them for a field that does not change. */
const EditMilestoneOption = Type.Object({
  title: OptionalTitle,
  description: OptionalText,
  due_on: OptionalString,
  state: OptionalString,
})

/** As in Gitea, `closed` closes and any other text opens. */
const stateOf = (text: string) => (text === 'closed' ? 'closed' : 'open')

function changesOf(body: Static<typeof EditMilestoneOption>): Partial<MilestoneSettings> {
  const changes: Partial<MilestoneSettings> = {}
  if (body.title != null && body.title !== '') changes.title = body.title
  if (body.description != null) changes.description = body.description
  if (body.due_on != null) changes.dueOn = body.due_on
  if (body.state != null) changes.state = stateOf(body.state)
  return changes
}

export function milestoneRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events, views } = services

  /** The milestone from the projection, or from its own events when the projection lags behind its creation. */
  async function milestoneNow(id: number): Promise<MilestoneDocument> {
    let milestone = await views.milestones.get(`${id}`)
    if (milestone !== undefined) return milestone
    for await (const event of events.readStream(milestoneStream(id))) {
      milestone = milestoneFold.evolve(milestone, decode(event), `${id}`)
    }
    if (milestone === undefined) throw new Refused(refuse.notFound('milestone not found'))
    return milestone
  }

  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.post(
      '/repos/:owner/:repo/milestones',
      {
        config,
        schema: {
          tags,
          params: RepositoryParams,
          body: CreateMilestoneOption,
          response: { 201: MilestoneWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const { body } = request
        const settings: MilestoneSettings = {
          title: body.title,
          description: body.description ?? '',
          state: stateOf(body.state ?? 'open'),
          dueOn: body.due_on ?? null,
        }
        // Refuse before a number is taken.
        const normal = normalMilestone(settings)
        if (isRefusal(normal)) throw new Refused(normal)
        const context = commandContext(request)
        const id = await takeNumber(events, context, idsStream('milestone'))
        await execute(events, context, {
          stream: milestoneStream(id),
          step: 'create',
          decider: milestoneDecider,
          decide: (state) => decideCreateMilestone(state, id, repository.id, settings),
        })
        await settled(services, context, reply)
        return reply.code(201).send(milestoneWire(await milestoneNow(id)))
      },
    )

    app.patch(
      '/repos/:owner/:repo/milestones/:id',
      {
        config,
        schema: {
          tags,
          params: MilestoneParams,
          body: EditMilestoneOption,
          response: { 200: MilestoneWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const { id } = await milestoneFor(services, repository.id, request.params.id)
        await executeRequest(services, request, reply, {
          stream: milestoneStream(id),
          step: 'edit',
          decider: milestoneDecider,
          decide: (state) => decideEditMilestone(state, repository.id, changesOf(request.body)),
        })
        return milestoneWire(await milestoneNow(id))
      },
    )

    app.delete(
      '/repos/:owner/:repo/milestones/:id',
      { config, schema: { tags, params: MilestoneParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const { id } = await milestoneFor(services, repository.id, request.params.id)
        await executeRequest(services, request, reply, {
          stream: milestoneStream(id),
          step: 'delete',
          decider: milestoneDecider,
          decide: (state) => decideDeleteMilestone(state, repository.id),
        })
        return reply.code(204).send(null)
      },
    )
  }
}
