/** Opens an issue: `POST /repos/{owner}/{repo}/issues`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { IssueEvent } from '../../events/domain-events.ts'
import { idsStream, issueStream, numbersStream } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { IssueWire, issueFor, issueWires } from '../../wire/issues.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { append, type CommandContext, execute } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { deadlineOf } from './deadline.ts'
import { decideStatus } from './discussion.ts'
import { assigneeRefs, labelRefs, milestoneRef } from './fields.ts'
import { issueDecider } from './issue.ts'
import { openDependencies } from './open-dependencies.ts'
import { titleOf } from './title.ts'

const CreateIssueOption = Type.Object({
  title: Type.String({ maxLength: 255 }),
  body: GivenOrNull(Type.String()),
  due_date: GivenOrNull(Type.String()),
  deadline: GivenOrNull(Type.String()),
  milestone: GivenOrNull(Type.Integer()),
  assignee: GivenOrNull(Type.String()),
  assignees: GivenOrNull(Type.Array(Type.String())),
  labels: GivenOrNull(Type.Array(Type.Integer())),
  closed: GivenOrNull(Type.Boolean()),
})

type Opening = Omit<Extract<IssueEvent, { type: 'IssueOpened' }>['data'], 'index' | 'id'>

/** Takes a number and an id and appends the issue. Resolves to its number. */
async function openIssue({ events }: Services, context: CommandContext, opening: Opening): Promise<number> {
  const [index, id] = await Promise.all([
    takeNumber(events, context, numbersStream(opening.repoId)),
    takeNumber(events, context, idsStream('issue')),
  ])
  const stream = issueStream(opening.repoId, index)
  const opened: IssueEvent = { type: 'IssueOpened', data: { ...opening, index, id } }
  // The number is new, so the stream is empty. Only a retried request may find its issue there.
  if (context.retry === undefined) await append(events, context, stream, 'open', [opened], 'no-stream')
  else {
    await execute(events, context, {
      stream,
      step: 'open',
      decider: issueDecider,
      decide: (state) => (state.status === 'none' ? [opened] : []),
    })
  }
  return index
}

/** Create rule 4: a new issue may be closed at once. @throws Refused when it must stay open */
async function closeIssue(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
): Promise<void> {
  const { events } = services
  const commentId = await takeNumber(events, context, idsStream('comment'))
  await execute(events, context, {
    stream: issueStream(repoId, index),
    step: 'close',
    decider: issueDecider,
    decide: async (state) => {
      if (state.status === 'none') return []
      const open = await openDependencies(services, state.dependencies)
      return decideStatus(state, { closed: true, commentId, openDependencies: open })
    },
  })
}

export function openIssueRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/repos/:owner/:repo/issues',
      {
        config: { scope: 'issue' },
        schema: {
          tags: ['issue'],
          params: RepositoryParams,
          body: CreateIssueOption,
          response: { 201: IssueWire },
        },
      },
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const { id, login } = signedIn(request)
        const { body } = request
        const title = titleOf(body.title)
        if (title === '') throw new Refused(refuse.unprocessable('title: must not be empty'))
        const isWriter = atLeast(access, 'write')
        const context = commandContext(request)
        const index = await openIssue(services, context, {
          repoId: repository.id,
          poster: { id, login },
          title,
          body: body.body ?? '',
          // Create rule 1: only writers set these fields. Requests of others are not even checked for them.
          labels: isWriter ? await labelRefs(services, repository, body.labels ?? []) : [],
          milestone: isWriter ? await milestoneRef(services, repository, body.milestone ?? 0) : null,
          assignees: isWriter ? await assigneeRefs(services, repository, body, 'invalid') : [],
          deadline: isWriter ? deadlineOf('due_date', body.due_date ?? body.deadline ?? null) : null,
        })
        if (body.closed) await closeIssue(services, context, repository.id, index)
        await settled(services, context, reply)
        const issue = await issueFor(services, repository.id, `${index}`)
        const [wire] = await issueWires(services, [issue], request.requester)
        if (wire === undefined) throw new Refused(refuse.notFound('issue not found'))
        return reply.code(201).send(wire)
      },
    )
  }
}
