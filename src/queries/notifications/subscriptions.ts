/**
 * Subscribers of an issue: `/repos/{owner}/{repo}/issues/{index}/subscriptions`, and the requester's own subscription.
 */

import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { WatchInfo } from '../../api/repositories/follows.ts'
import { UserWire, usersById } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { participationId } from '../../projections/models/notifications/participations.fold.ts'
import { followId } from '../../projections/models/repositories/follows.fold.ts'
import { listSchema, pagedList } from '../paged-list.ts'

export const subscriptionQueryRoutes: Routes = (services) => {
  const { participations, follows } = services.views
  return async (app) => {
    // As in Gitea, explicit subscriptions only.
    app.get(
      '/repos/:owner/:repo/issues/:index/subscriptions',
      route('issue', { params: IssueParams, ...listSchema(UserWire) }),
      async (request, reply) => {
        const { repoId, index } = (await onIssue(services, request, 'read')).issue
        const found = await pagedList(services, request, reply, {
          view: participations,
          filter: { repoId, index, subscribed: true },
          sort: [['userId', 1]],
        })
        const people = await usersById(
          services,
          found.map(({ userId }) => userId),
        )
        return found.flatMap(({ userId }) => people.get(userId) ?? [])
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/subscriptions/check',
      route('issue', { params: IssueParams, response: { 200: WatchInfo } }),
      async (request) => {
        const { repository, issue } = await onIssue(services, request, 'read')
        const { id } = signedIn(request)
        const [own, follow] = await Promise.all([
          participations.get(participationId(issue, id)),
          follows.get(followId(repository.id, id)),
        ])
        const subscribed = own?.subscribed ?? (own?.active === true || follow?.watched === true)
        const repository_url = `${services.publicUrl()}/api/v1/repos/${repository.ownerLogin}/${repository.name}`
        return {
          subscribed,
          ignored: !subscribed,
          reason: null,
          created_at: wholeSeconds(issue.createdAt),
          url: `${repository_url}/issues/${issue.index}/subscriptions`,
          repository_url,
        }
      },
    )
  }
}
