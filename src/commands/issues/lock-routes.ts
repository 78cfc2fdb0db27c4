/** Locks and unlocks issues and pull requests: `PUT` and `DELETE /repos/{owner}/{repo}/issues/{index}/lock`. */
import { Type } from 'typebox'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { Nullable } from '../../api/nullable.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { decideLock, decideUnlock, LOCK_REASONS } from './lock.decider.ts'

const LockIssueOption = Type.Object(
  { lock_reason: Type.Optional(Type.String()) },
  { title: 'LockIssueOption' },
)

/** Returns the reason in Gitea's spelling, for any case. @throws Refused (invalid) for an unknown one */
function reasonOf(given: string): string {
  const anyCase = given.trim().toLowerCase()
  if (anyCase === '') return ''
  const reason = LOCK_REASONS.find((known) => known.toLowerCase() === anyCase)
  if (reason !== undefined) return reason
  throw new Refused(refuse.invalid(`lock_reason: must be one of ${LOCK_REASONS.join(', ')}, or empty`))
}

export const lockRoutes: Routes = (services) => async (app) => {
  app.put(
    '/repos/:owner/:repo/issues/:index/lock',
    route('issue', {
      params: IssueParams,
      body: Nullable(LockIssueOption),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { issue } = await onIssue(services, request, 'admin')
      const reason = reasonOf(request.body?.lock_reason ?? '')
      const context = commandContext(request)
      await changeDiscussion(services, context, issue, 'lock', {
        issue: (discussion) => decideLock(discussion, reason),
      })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )

  app.delete(
    '/repos/:owner/:repo/issues/:index/lock',
    route('issue', {
      params: IssueParams,
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { issue } = await onIssue(services, request, 'admin')
      const context = commandContext(request)
      await changeDiscussion(services, context, issue, 'unlock', { issue: decideUnlock })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
