/** Creates, changes and deletes milestones: `/repos/{owner}/{repo}/milestones`. */
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import {
  MilestoneParams,
  MilestoneWire,
  milestoneFor,
  milestoneWire,
} from '../../api/milestones/milestones.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused } from '../../errors/refusal.ts'
import type { MilestoneSettings } from '../../events/catalog/milestones.ts'
import { idsStream, milestoneStream } from '../../events/streams.ts'
import { milestoneFold } from '../../projections/models/milestones/milestones.fold.ts'
import type { Services } from '../../services/services.ts'
import { milestones } from '../execution/aggregates.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { TextOf } from '../execution/text-schema.ts'
import {
  decideCreateMilestone,
  decideDeleteMilestone,
  decideEditMilestone,
  normalMilestone,
} from './milestone.decider.ts'

/** Maximum length in Gitea's database. */
const Title = Type.String({ maxLength: 255 })

/** Null and an empty title are the same as absent: Go clients send them for a field that does not change. */
const EditMilestoneOption = (services: Services) =>
  Type.Object(
    {
      title: Type.Optional(Title),
      description: Type.Optional(TextOf(services)),
      due_on: Type.Optional(Type.String()),
      state: Type.Optional(Type.String()),
    },
    { title: 'EditMilestoneOption' },
  )

const CreateMilestoneOption = (services: Services) =>
  Type.Object(
    { ...EditMilestoneOption(services).properties, title: Title },
    { title: 'CreateMilestoneOption' },
  )

/** As in Gitea, `closed` closes and any other text opens. */
const stateOf = (text: string) => (text === 'closed' ? 'closed' : 'open')

function changesOf(body: Static<ReturnType<typeof EditMilestoneOption>>): Partial<MilestoneSettings> {
  const changes: Partial<MilestoneSettings> = {}
  if (body.title != null && body.title !== '') changes.title = body.title
  if (body.description != null) changes.description = body.description
  if (body.due_on != null) changes.dueOn = body.due_on
  if (body.state != null) changes.state = stateOf(body.state)
  return changes
}

async function wireNow(services: Services, id: number): Promise<Static<typeof MilestoneWire>> {
  const source = { id, stream: milestoneStream(id), view: services.views.milestones, fold: milestoneFold }
  return milestoneWire(await loadDocument(services, 'milestone', source))
}

export const milestoneRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/milestones',
    route('issue', {
      params: RepositoryParams,
      body: CreateMilestoneOption(services),
      response: { 201: MilestoneWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const { title } = request.body
      const defaults: MilestoneSettings = { title, description: '', state: 'open', dueOn: null }
      const settings = { ...defaults, ...changesOf(request.body) }
      // Refuse before taking a number.
      const normal = normalMilestone(settings)
      if (isRefusal(normal)) throw new Refused(normal)
      const context = commandContext(request)
      const id = await takeNumber(services, context, idsStream('milestone'))
      await milestones.change(services, context, id, 'create', (state) =>
        decideCreateMilestone(state, id, repository.id, settings),
      )
      await settled(services, context, reply)
      return reply.code(201).send(await wireNow(services, id))
    },
  )

  app.patch(
    '/repos/:owner/:repo/milestones/:id',
    route('issue', {
      params: MilestoneParams,
      body: EditMilestoneOption(services),
      response: { 200: MilestoneWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const { id } = await milestoneFor(services, repository.id, request.params.id)
      const context = commandContext(request)
      await milestones.change(services, context, id, 'edit', (state) =>
        decideEditMilestone(state, repository.id, changesOf(request.body)),
      )
      await settled(services, context, reply)
      return wireNow(services, id)
    },
  )

  app.delete(
    '/repos/:owner/:repo/milestones/:id',
    route('issue', { params: MilestoneParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const { id } = await milestoneFor(services, repository.id, request.params.id)
      const context = commandContext(request)
      await milestones.change(services, context, id, 'delete', (state) =>
        decideDeleteMilestone(state, repository.id),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
