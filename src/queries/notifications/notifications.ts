/** Reading notifications: `/notifications`, `/notifications/new`, `/notifications/threads/{id}`, and of one repository. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { StatusQuery, statusesOf } from '../../api/notifications/notification-query.ts'
import {
  NotificationWire,
  type ThreadFilter,
  threadsOf,
  threadWires,
  threadWithId,
} from '../../api/notifications/notifications.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { TimeRangeQuery, timeRange } from '../../api/time-range.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { RepeatedText, textsOf } from '../../http/requests/repeated-text.ts'
import { filteredListSchema, type PageRequest, pagedRows } from '../paged-list.ts'

const FILTERS = {
  ...StatusQuery,
  'subject-type': RepeatedText('Only notifications of issues or of pull requests: issue or pull'),
  ...TimeRangeQuery,
}

type Filters = {
  all?: string
  'status-types'?: string | string[]
  'subject-type'?: string | string[]
  since?: string
  before?: string
}

/** Gitea's subjects of notifications; the last three have none here. */
const SUBJECTS = ['issue', 'pull', 'commit', 'repository', 'release']

export const notificationQueryRoutes: Routes = (services) => {
  async function list(
    request: FastifyRequest & PageRequest & { query: Filters },
    reply: FastifyReply,
    repoId: number | null,
  ) {
    const user = signedIn(request)
    const subjects = textsOf(request.query['subject-type']).map((text) => text.toLowerCase())
    const unknown = subjects.find((text) => !SUBJECTS.includes(text))
    if (unknown !== undefined)
      throw new Refused(refuse.unprocessable(`subject-type: '${unknown}' is unknown`))
    const [issue, pull] = [subjects.includes('issue'), subjects.includes('pull')]
    const isNone = subjects.length > 0 && !issue && !pull
    const filter: ThreadFilter = {
      statuses: statusesOf(request.query, ['unread', 'pinned']),
      isPull: issue === pull ? null : pull,
      repoId,
      ...timeRange(request.query),
    }
    const threads = isNone ? [] : await threadsOf(services, user, filter)
    return threadWires(services, user, pagedRows(services, request, reply, threads))
  }

  return async (app) => {
    app.get(
      '/notifications',
      route('notification', filteredListSchema(NotificationWire, FILTERS)),
      async (request, reply) => list(request, reply, null),
    )

    app.get(
      '/repos/:owner/:repo/notifications',
      route('notification', { params: RepositoryParams, ...filteredListSchema(NotificationWire, FILTERS) }),
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return list(request, reply, repository.id)
      },
    )

    app.get(
      '/notifications/new',
      route('notification', { response: { 200: Type.Object({ new: Type.Integer() }) } }),
      async (request) => {
        const filter = { statuses: ['unread'], isPull: null, repoId: null } as const
        return { new: (await threadsOf(services, signedIn(request), filter)).length }
      },
    )

    app.get(
      '/notifications/threads/:id',
      route('notification', {
        params: Type.Object({ id: Type.String() }),
        response: { 200: NotificationWire },
      }),
      async (request) => {
        const user = signedIn(request)
        const id = pathNumber(request.params.id)
        const thread = id === undefined ? undefined : await threadWithId(services, user, id)
        const [wire] = thread === undefined ? [] : await threadWires(services, user, [thread])
        if (wire === undefined) throw new Refused(refuse.notFound('notification not found'))
        return wire
      },
    )
  }
}
