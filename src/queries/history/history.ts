/**
 * The recorded events of an issue or pull request, of a repository, or of the server. The `Accept` header selects one
 * page, all events as lines of JSON, or live server-sent events.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { HistoryWire, historyWire } from '../../api/history/history.ts'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { onPull, PullParams } from '../../api/pull-requests/pulls.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { discussionStream, pullStream } from '../../events/streams.ts'
import { requestedBeginning } from '../../http/answers/event-stream.ts'
import { preferredType } from '../../http/answers/media-type.ts'
import { NDJSON, sendLines } from '../../http/answers/ndjson.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { PageQuery, pageOf, sendPaging } from '../../http/requests/paging.ts'
import type { Services } from '../../services/services.ts'
import { HistoryFilterQuery, historyFilter } from './history-filter.ts'
import { indexedHistory } from './history-index.ts'
import { sendLive } from './history-live.ts'
import {
  discussionPermissions,
  type HistoryPermissions,
  type HistoryRequest,
  repositoryPermissions,
  siteAdminPermissions,
  visibleOf,
} from './history-permissions.ts'
import { BEGINNING, type History, inBatches, streamHistory } from './history-source.ts'

const JSON_TYPE = 'application/json'
const EVENT_STREAM = 'text/event-stream'
/** Types that a wildcard does not select, because the answer never ends. */
const NAMED = [EVENT_STREAM] as const

const HistoryQuery = Type.Object({
  ...HistoryFilterQuery.properties,
  ...PageQuery,
  after: OptionalText(
    `${EVENT_STREAM}: begin after the event with this id; \`now\`: only new events. Last-Event-ID has precedence`,
  ),
})

const ANSWER = {
  200: {
    description:
      'Oldest first: a page; or all events, one per line; or all events and then new ones as they arrive',
    content: {
      [JSON_TYPE]: { schema: Type.Array(HistoryWire) },
      [NDJSON]: { schema: Type.String() },
      [EVENT_STREAM]: { schema: Type.String() },
    },
  },
}

const DESCRIPTION =
  'The recorded events. Nothing is removed from them: texts of deleted comments stay readable until they are erased. They may show ids of ' +
  'repositories that the requester may not read: of a dependency, of the head of a pull request, or of what closed an ' +
  'issue. A fork also shows the name of its parent.'

export function historyRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { config, projector, publicUrl } = services

  /** Resolves to the rows of a page, or to the reply when the answer is streamed. */
  async function send(
    request: FastifyRequest & { query: Static<typeof HistoryQuery> },
    reply: FastifyReply,
    history: History,
    permissions: HistoryPermissions,
  ): Promise<Static<typeof HistoryWire>[] | FastifyReply> {
    reply.header('Vary', 'Accept')
    const filter = historyFilter(request.query)
    switch (preferredType(request.headers.accept, [JSON_TYPE, NDJSON, EVENT_STREAM], NAMED)) {
      case JSON_TYPE: {
        const page = pageOf(request.query, config)
        // The permission may have ended since the route's check.
        const { events: visible = {}, parts } = (await permissions()) ?? {
          events: { types: new Set<string>() },
        }
        const { events: found, total } = await history.page(
          { ...filter, ...visible },
          page,
          disconnectSignal(reply),
        )
        sendPaging(request, reply, publicUrl(), page, total)
        return found.map((event) => historyWire(event, parts))
      }
      case NDJSON: {
        const historyRequest = { filter, permissions, projector, signal: disconnectSignal(reply) }
        // Excludes events that are appended while the history is read.
        const last = await history.last()
        sendLines(request, reply, () => linesOf(history, last, historyRequest))
        return reply
      }
      case EVENT_STREAM: {
        const beginning = requestedBeginning(request, request.query.after)
        await sendLive(services, request, reply, { history, filter, permissions, beginning })
        return reply
      }
    }
  }

  return async (app) => {
    const schema = { description: DESCRIPTION, querystring: HistoryQuery, response: ANSWER }

    app.get(
      '/repos/:owner/:repo/pulls/:index/history',
      { schema: { ...schema, tags: ['repository'], params: PullParams } },
      async (request, reply) => {
        const { repository, pull } = await onPull(services, request, 'read')
        const history = streamHistory(services, pullStream(repository.id, pull.index))
        return send(request, reply, history, discussionPermissions(services, request, repository.id))
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/history',
      { config: { scope: 'issue' }, schema: { ...schema, tags: ['issue'], params: IssueParams } },
      async (request, reply) => {
        const { repository, issue } = await onIssue(services, request, 'read')
        const history = streamHistory(services, discussionStream(issue))
        return send(request, reply, history, discussionPermissions(services, request, repository.id))
      },
    )

    app.get(
      '/repos/:owner/:repo/history',
      { schema: { ...schema, tags: ['repository'], params: RepositoryParams } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const history = indexedHistory(services, repository.id)
        return send(request, reply, history, repositoryPermissions(services, request, repository.id))
      },
    )

    app.get(
      '/admin/history',
      { config: { scope: 'admin' }, schema: { ...schema, tags: ['admin'] } },
      async (request, reply) => {
        siteAdmin(request, 'read the history of the server')
        return send(request, reply, indexedHistory(services), siteAdminPermissions(services, request))
      },
    )
  }
}

/** Fails when the requester loses access: the client must not mistake a part for the whole history. */
async function* linesOf(history: History, last: number, request: HistoryRequest): AsyncGenerator<string[]> {
  for await (const batch of inBatches(history.read(request.filter, BEGINNING, last))) {
    const visible = await visibleOf(batch, request)
    if (request.signal.aborted) return
    if (visible === undefined) throw new Refused(refuse.notFound('you may no longer read this history'))
    yield visible.map(({ json }) => json)
  }
}
