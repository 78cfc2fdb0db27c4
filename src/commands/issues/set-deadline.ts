/** Sets or removes the deadline of an issue: `POST /repos/{owner}/{repo}/issues/{index}/deadline`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { IssueParams, issueFor } from '../../wire/issues.ts'
import { GivenOrNull, Nullable } from '../../wire/nullable.ts'
import { commandContext, settled } from '../request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { deadlineOf } from './deadline.ts'
import { decideEditDiscussion } from './discussion.ts'

const EditDeadlineOption = Type.Object({
  due_date: GivenOrNull(Type.String()),
  deadline: GivenOrNull(Type.String()),
})

const DeadlineWire = Type.Object({ due_date: Nullable(Type.String()) })

export function setDeadlineRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/repos/:owner/:repo/issues/:index/deadline',
      {
        config: { scope: 'issue' },
        schema: {
          tags: ['issue'],
          params: IssueParams,
          body: EditDeadlineOption,
          response: { 201: DeadlineWire },
        },
      },
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        signedIn(request)
        const issue = await issueFor(services, repository.id, request.params.index)
        if (!atLeast(access, 'write')) throw new Refused(refuse.forbidden('only writers may set a deadline'))
        const { due_date: dueDate, deadline: alias } = request.body
        if (dueDate === undefined && alias === undefined) {
          throw new Refused(refuse.unprocessable('due_date: must be a date-time, or null to remove it'))
        }
        const deadline = deadlineOf('due_date', dueDate ?? alias ?? null)
        const context = commandContext(request)
        await changeDiscussion(services, context, issue, 'deadline', {
          issue: (discussion) => decideEditDiscussion(discussion, { deadline }),
        })
        await settled(services, context, reply)
        return reply.code(201).send({ due_date: deadline })
      },
    )
  }
}
