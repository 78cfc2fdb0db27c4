/** Changes an issue: `PATCH /repos/{owner}/{repo}/issues/{index}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import type { AccountRef, DiscussionEvent, PullRequestEvent } from '../../events/domain-events.ts'
import { type Discussion, evolveDiscussion } from '../../projections/discussion.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { isRefusal, Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { IssueParams, IssueWire, issueFor, issueWires } from '../../wire/issues.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import type { Decision } from '../execute.ts'
import { catchUpAfterReopening } from '../pull-requests/move-heads.ts'
import { decidePullStatus } from '../pull-requests/pull-request.ts'
import { commandContext, settled } from '../request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { deadlineOf } from './deadline.ts'
import { type DiscussionEdit, decideEditDiscussion, decideStatus } from './discussion.ts'
import { assigneeRefs, milestoneRef } from './fields.ts'
import { statusChange } from './status-change.ts'
import { titleOf } from './title.ts'

const EditIssueOption = Type.Object({
  title: GivenOrNull(Type.String({ maxLength: 255 })),
  body: GivenOrNull(Type.String()),
  due_date: GivenOrNull(Type.String()),
  deadline: GivenOrNull(Type.String()),
  unset_due_date: GivenOrNull(Type.Boolean()),
  remove_deadline: GivenOrNull(Type.Boolean()),
  milestone: GivenOrNull(Type.Integer()),
  assignee: GivenOrNull(Type.String()),
  assignees: GivenOrNull(Type.Array(Type.String())),
  state: GivenOrNull(Type.String()),
})

/** Edit rules 2 and 3: the changes in the request. Go clients send null for a field that does not change. */
async function editOf(
  services: Services,
  repository: RepositoryDocument,
  isWriter: boolean,
  body: Static<typeof EditIssueOption>,
): Promise<DiscussionEdit> {
  const edit: DiscussionEdit = {}
  const title = titleOf(body.title ?? '')
  if (title !== '') edit.title = title
  if (body.body != null) edit.body = body.body
  if (!isWriter) return edit
  const deadline = body.due_date ?? body.deadline
  if (body.unset_due_date || body.remove_deadline) edit.deadline = null
  else if (deadline) edit.deadline = deadlineOf('due_date', deadline)
  if (body.milestone != null) edit.milestone = await milestoneRef(services, repository, body.milestone)
  if (body.assignees != null || body.assignee) {
    edit.assignees = await assigneeRefs(services, repository, body, 'unprocessable')
  }
  return edit
}

/** The discussion after some edits: the event of closing names the milestone that the same request sets. */
const after = <D extends Discussion>(discussion: D, edits: readonly DiscussionEvent[]): D =>
  edits.reduce((edited, event) => evolveDiscussion(edited, event), discussion)

function both<E extends PullRequestEvent | DiscussionEvent>(
  edits: readonly DiscussionEvent[],
  status: Decision<E>,
): Decision<E | DiscussionEvent> {
  return isRefusal(status) ? status : [...edits, ...status]
}

export function editIssueRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['issue']
    const config = { scope: 'issue' } as const

    app.patch(
      '/repos/:owner/:repo/issues/:index',
      {
        config,
        schema: { tags, params: IssueParams, body: EditIssueOption, response: { 201: IssueWire } },
      },
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const requester = signedIn(request)
        const issue = await issueFor(services, repository.id, request.params.index)
        const isWriter = atLeast(access, 'write')
        // Edit rule 1.
        if (!isWriter && issue.poster.id !== requester.id) {
          throw new Refused(refuse.forbidden('only the poster and writers may change an issue'))
        }
        const { body } = request
        const context = commandContext(request)
        const edit = await editOf(services, repository, isWriter, body)
        const closed = body.state == null ? undefined : body.state === 'closed'
        const by: AccountRef = { id: requester.id, login: requester.login }
        await changeDiscussion(services, context, issue, 'edit', {
          async issue(discussion) {
            const edits = decideEditDiscussion(discussion, edit)
            if (closed === undefined) return edits
            const change = await statusChange(services, context, discussion, closed)
            return both(edits, decideStatus(after(discussion, edits), change))
          },
          async pull(pull) {
            const edits = decideEditDiscussion(pull, edit)
            if (closed === undefined) return edits
            const change = await statusChange(services, context, pull, closed)
            return both(edits, decidePullStatus(after(pull, edits), change, by))
          },
        })
        await settled(services, context, reply)
        if (issue.isPull && closed === false && issue.closed)
          await catchUpAfterReopening(services, context, issue)
        const edited = await issueFor(services, repository.id, request.params.index)
        const [wire] = await issueWires(services, [edited], requester)
        if (wire === undefined) throw new Refused(refuse.notFound('issue not found'))
        return reply.code(201).send(wire)
      },
    )
  }
}
