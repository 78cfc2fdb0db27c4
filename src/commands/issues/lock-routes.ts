/** Locks and unlocks issues and pull requests: `PUT` and `DELETE /repos/{owner}/{repo}/issues/{index}/lock`. */
import { Type } from 'typebox'
import { Refused, refuse } from '../../refusal.ts'
import { emptyAnswer, type Routes, route } from '../../rights/routes.ts'
import { IssueParams, onIssue } from '../../wire/issues.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { commandContext, settled } from '../request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { decideLock, decideUnlock, LOCK_REASONS } from './lock.ts'

const LockIssueOption = Type.Object({ lock_reason: GivenOrNull(Type.String()) })

const isReason = (reason: string) => LOCK_REASONS.some((known) => known === reason)

export const lockRoutes: Routes = (services) => async (app) => {
  app.put(
    '/repos/:owner/:repo/issues/:index/lock',
    route('issue', {
      params: IssueParams,
      body: GivenOrNull(LockIssueOption),
      response: { 204: Type.Null(), 208: emptyAnswer('It is locked already') },
    }),
    async (request, reply) => {
      const reason = (request.body?.lock_reason ?? '').trim()
      const { issue } = await onIssue(services, request, 'admin')
      if (reason !== '' && !isReason(reason)) {
        throw new Refused(refuse.invalid(`lock_reason: must be one of ${LOCK_REASONS.join(', ')}, or empty`))
      }
      if (issue.locked) return reply.code(208).send()
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
      response: { 204: Type.Null(), 208: emptyAnswer('It is not locked') },
    }),
    async (request, reply) => {
      const { issue } = await onIssue(services, request, 'admin')
      if (!issue.locked) return reply.code(208).send()
      const context = commandContext(request)
      await changeDiscussion(services, context, issue, 'unlock', { issue: decideUnlock })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
