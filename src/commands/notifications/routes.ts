/** Marks notifications as read, unread or pinned, for the requester only. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { StatusQuery, statusesOf, statusNamed } from '../../api/notifications/notification-query.ts'
import {
  NotificationWire,
  type Status,
  type Thread,
  threadsOf,
  threadWires,
  threadWithId,
} from '../../api/notifications/notifications.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { timeRange } from '../../api/time-range.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { readsStream } from '../../events/streams.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { append } from '../execution/append.ts'
import { requestContext, settled } from '../execution/request-context.ts'

const ToStatus = { 'to-status': OptionalText('New status: unread, read (default) or pinned') }
const MarkQuery = Type.Object({
  ...StatusQuery,
  ...ToStatus,
  last_read_at: OptionalText('Time (RFC 3339); later notifications stay as they are'),
})
interface Marking {
  'to-status'?: string
  last_read_at?: string
}
/** 205, as in Gitea. */
const MARKED = { 205: Type.Array(NotificationWire) }

/** Maximum number of marks in an append, far below the limit of an append. */
const MARKS_PER_APPEND = 500

const toStatus = (query: { 'to-status'?: string }) => statusNamed('to-status', query['to-status'] || 'read')

export const notificationRoutes: Routes = (services) => {
  /** Marks the threads. Resolves to them after that. */
  async function mark(
    request: FastifyRequest,
    reply: FastifyReply,
    user: AccountDocument,
    threads: readonly Thread[],
    status: Status,
  ) {
    const context = requestContext(request)
    const { id, login } = user
    for (let i = 0; i < threads.length; i += MARKS_PER_APPEND) {
      const marks = threads.slice(i, i + MARKS_PER_APPEND).map(({ activity: { repoId, index }, at }) => {
        const data = { repoId, index, user: { id, login }, status, upTo: at }
        return { type: 'NotificationMarked', data } as const
      })
      await append(services, context, readsStream(id), `mark ${i}`, marks, 'any')
    }
    await settled(services, context, reply)
    return threadWires(
      services,
      user,
      threads.map((thread) => ({ ...thread, status })),
    )
  }

  async function markAll(
    request: FastifyRequest & { query: Parameters<typeof statusesOf>[0] & Marking },
    reply: FastifyReply,
    repoId: number | null,
  ) {
    const user = signedIn(request)
    const status = toStatus(request.query)
    const { last_read_at: before } = request.query
    const threads = await threadsOf(services, user, {
      statuses: statusesOf(request.query, ['unread']),
      isPull: null,
      repoId,
      ...timeRange(before === undefined ? {} : { before }),
    })
    const changed = threads.filter((thread) => thread.status !== status)
    return reply.code(205).send(await mark(request, reply, user, changed, status))
  }

  return async (app) => {
    app.put(
      '/notifications',
      route('notification', { querystring: MarkQuery, response: MARKED }),
      async (request, reply) => markAll(request, reply, null),
    )

    app.put(
      '/repos/:owner/:repo/notifications',
      route('notification', { params: RepositoryParams, querystring: MarkQuery, response: MARKED }),
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return markAll(request, reply, repository.id)
      },
    )

    app.patch(
      '/notifications/threads/:id',
      route('notification', {
        params: Type.Object({ id: Type.String() }),
        querystring: Type.Object(ToStatus),
        response: { 205: NotificationWire },
      }),
      async (request, reply) => {
        const user = signedIn(request)
        const id = pathNumber(request.params.id)
        const status = toStatus(request.query)
        const thread = id === undefined ? undefined : await threadWithId(services, user, id)
        if (thread === undefined) throw new Refused(refuse.notFound('notification not found'))
        const [wire] = await mark(request, reply, user, [thread], status)
        if (wire === undefined) throw new Refused(refuse.notFound('notification not found'))
        return reply.code(205).send(wire)
      },
    )
  }
}
