/** Subscribes users to issues and pull requests: `/repos/{owner}/{repo}/issues/{index}/subscriptions/{user}`. */
import { Type } from 'typebox'
import { accessTo } from '../../access/access.ts'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { userNamed } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { emptyAnswer, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { participationId } from '../../projections/models/notifications/participations.fold.ts'
import { subscriptions } from '../execution/aggregates.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { decideSubscription } from './subscription.decider.ts'

const SubscriptionParams = Type.Object({ ...IssueParams.properties, user: Type.String() })
const CHANGED = { 200: emptyAnswer('Nothing has changed'), 201: emptyAnswer('Changed') }

export const subscriptionRoutes: Routes = (services) => async (app) => {
  for (const { method, wanted } of [
    { method: 'PUT', wanted: true },
    { method: 'DELETE', wanted: false },
  ] as const) {
    app.route({
      method,
      url: '/repos/:owner/:repo/issues/:index/subscriptions/:user',
      ...route('issue', { params: SubscriptionParams, response: CHANGED }),
      handler: async (request, reply) => {
        const { repository, issue } = await onIssue(services, request, 'read')
        const requester = signedIn(request)
        const user = await userNamed(services, request.params.user)
        if (user.id !== requester.id && !requester.siteAdmin) {
          throw new Refused(refuse.forbidden('only the user and site admins may change a subscription'))
        }
        // An issue does not exist for a user without access.
        if (accessTo(repository, user) === 'none') throw new Refused(refuse.notFound('user not found'))
        const { repoId, index } = issue
        const before = await services.views.participations.get(participationId(issue, user.id))
        const context = requestContext(request)
        const start = context.written
        // A participant is subscribed without a setting.
        if (before?.subscribed !== null || before.active !== wanted) {
          const of = { repoId, index, userId: user.id }
          await subscriptions.change(services, context, of, 'subscribe', (state) =>
            decideSubscription(state, issue, { id: user.id, login: user.login }, wanted),
          )
        }
        await settled(services, context, reply)
        return reply.code(context.written === start ? 200 : 201).send()
      },
    })
  }
}
