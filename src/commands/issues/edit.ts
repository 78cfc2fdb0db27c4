/** Changes an issue, or only its deadline: `PATCH …/issues/{index}` and `POST …/issues/{index}/deadline`. */
import { Type } from 'typebox'
import { atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { IssueParams, IssueWire, issueFor, issueNow } from '../../api/issues/issues.ts'
import { Nullable } from '../../api/nullable.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import type { DiscussionEvent } from '../../events/catalog/issues.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import { type Discussion, evolveDiscussion } from '../../projections/models/issues/discussion.ts'
import type { Services } from '../../services/services.ts'
import type { Decision } from '../execution/decider.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { catchUpAfterReopening } from '../pull-requests/branches/move-heads.ts'
import { changeClaiming, keyWhenOpened } from '../pull-requests/duplicate-pull.ts'
import { decidePullStatus } from '../pull-requests/pull-request.decider.ts'
import { changeDiscussion } from './change-discussion.ts'
import { decideEditDiscussion, decideStatus, type StatusChange } from './discussion.decider.ts'
import { deadlineOf, discussionEdit, editOptions, IssueRefOption, refOf } from './fields.ts'
import { statusChange } from './status-change.ts'

const EditIssueOption = (services: Services) =>
  Type.Object({ ...editOptions(services), ref: IssueRefOption }, { title: 'EditIssueOption' })

const EditDeadlineOption = Type.Object(
  {
    due_date: Type.Optional(Nullable(Type.String())),
    deadline: Type.Optional(Nullable(Type.String())),
  },
  { title: 'EditDeadlineOption' },
)

const DeadlineWire = Type.Object({ due_date: Nullable(Type.String()) }, { title: 'IssueDeadline' })

export const editIssueRoutes: Routes = (services) => async (app) => {
  app.patch(
    '/repos/:owner/:repo/issues/:index',
    route('issue', {
      params: IssueParams,
      body: EditIssueOption(services),
      response: { 201: IssueWire },
      refusals: ['preconditionFailed'],
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'read')
      const requester = signedIn(request)
      const issue = await issueFor(services, repository.id, request.params.index)
      const isWriter = atLeast(access, 'write')
      // `issues.edit.1`.
      if (!isWriter && issue.poster.id !== requester.id) {
        throw new Refused(refuse.forbidden('only the poster and writers may change an issue'))
      }
      const { body } = request
      const context = commandContext(request)
      const edit = await discussionEdit(services, repository, body, { of: 'issue', isWriter })
      if (body.ref != null) edit.ref = refOf(body.ref)
      const closed = body.state == null ? undefined : body.state === 'closed'
      const by: AccountRef = { id: requester.id, login: requester.login }

      async function decide<D extends Discussion, E extends PullRequestEvent>(
        discussion: D,
        decideClosed: (edited: D, change: StatusChange) => Decision<E>,
      ): Promise<Decision<E | DiscussionEvent>> {
        const edits = decideEditDiscussion(discussion, edit)
        if (closed === undefined) return edits
        const change = await statusChange(services, context, discussion, closed)
        // The event of closing names the milestone that this request sets.
        const status = decideClosed(edits.reduce<D>(evolveDiscussion, discussion), change)
        return isRefusal(status) ? status : [...edits, ...status]
      }
      const change = () =>
        changeDiscussion(services, context, issue, 'edit', {
          issue: (discussion) => decide(discussion, decideStatus),
          pull: (pull) => decide(pull, (edited, change) => decidePullStatus(edited, change, by)),
        })
      if (!issue.isPull || closed === undefined) await change()
      else await changeClaiming(services, context, issue, (pull) => keyWhenOpened(pull, closed), change)
      await settled(services, context, reply)
      if (issue.isPull && closed === false && issue.closed)
        await catchUpAfterReopening(services, context, issue)
      return reply.code(201).send(await issueNow(services, issue, requester))
    },
  )

  app.post(
    '/repos/:owner/:repo/issues/:index/deadline',
    route('issue', { params: IssueParams, body: EditDeadlineOption, response: { 201: DeadlineWire } }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'read')
      signedIn(request)
      const issue = await issueFor(services, repository.id, request.params.index)
      if (!atLeast(access, 'write')) throw new Refused(refuse.forbidden('only writers may set a deadline'))
      const { due_date: dueDate, deadline: alias } = request.body
      const wanted = dueDate ?? alias ?? null
      if (wanted === '') {
        throw new Refused(refuse.unprocessable('due_date: must be a date-time, or null to remove it'))
      }
      const deadline = deadlineOf(wanted)
      const context = commandContext(request)
      await changeDiscussion(services, context, issue, 'deadline', {
        issue: (discussion) => decideEditDiscussion(discussion, { deadline }),
      })
      await settled(services, context, reply)
      return reply.code(201).send({ due_date: deadline })
    },
  )
}
