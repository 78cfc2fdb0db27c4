/** Subscribes users to issues and pull requests: `/repos/{owner}/{repo}/issues/{index}/subscriptions/{user}`. */
import { Type } from 'typebox'
import { participationId } from '../../projections/participations.ts'
import { Refused, refuse } from '../../refusal.ts'
import { accessTo } from '../../rights/access.ts'
import { signedIn } from '../../rights/requester.ts'
import { emptyAnswer, type Routes, route } from '../../rights/routes.ts'
import { IssueParams, onIssue } from '../../wire/issues.ts'
import { userNamed } from '../../wire/users.ts'
import { subscriptions } from '../aggregates.ts'
import { requestContext, settled } from '../request-context.ts'
import { decideSubscription } from './subscription.ts'

const SubscriptionParams = Type.Object({ ...IssueParams.properties, user: Type.String() })
const CHANGED = { 200: emptyAnswer('It was so already'), 201: emptyAnswer('It is so now') }

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
        // To somebody who may not read it, it is not there.
        if (accessTo(repository, user) === 'none') throw new Refused(refuse.notFound('user not found'))
        const { repoId, index } = issue
        const before = await services.views.participations.get(participationId(issue, user.id))
        const context = requestContext(request)
        const start = context.written
        // Who participates is subscribed without having said so.
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
