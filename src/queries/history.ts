/**
 * What was recorded: of an issue or pull request, of a repository, of the whole server. Each as a page, as all of
 * it in lines of JSON, or live, as server-sent events: the `Accept` header says which.
 */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { discussionStream, pullStream } from '../events/streams.ts'
import { clientGone } from '../http/client-gone.ts'
import { requestedBeginning } from '../http/event-stream.ts'
import { preferredType } from '../http/media-type.ts'
import { NDJSON, sendLines } from '../http/ndjson.ts'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { Refused, refuse } from '../refusal.ts'
import { onRepository } from '../rights/repository-access.ts'
import { siteAdmin } from '../rights/requester.ts'
import type { Services } from '../services.ts'
import { HistoryWire, historyWire } from '../wire/history.ts'
import { IssueParams, onIssue } from '../wire/issues.ts'
import { onPull, PullParams } from '../wire/pulls.ts'
import { RepositoryParams } from '../wire/repositories.ts'
import { type HistoryFilter, HistoryFilterQuery, historyFilter } from './history-filter.ts'
import { indexedHistory } from './history-index.ts'
import { sendLive } from './history-live.ts'
import {
  discussionRights,
  type HistoryRequest,
  type Rights,
  repositoryRights,
  seenOf,
  siteAdminRights,
} from './history-rights.ts'
import { BEGINNING, type History, inBatches, streamHistory } from './history-source.ts'

const JSON_TYPE = 'application/json'
const EVENT_STREAM = 'text/event-stream'
/** Who takes anything wants an answer that ends. */
const NAMED = [EVENT_STREAM] as const

const HistoryQuery = Type.Object({
  ...HistoryFilterQuery.properties,
  ...PageQuery,
  after: Type.Optional(
    Type.String({
      description: `${EVENT_STREAM}: begin behind the event with this id; \`now\`: only what comes. Last-Event-ID goes before it`,
    }),
  ),
})

const ANSWER = {
  200: {
    description: 'Oldest first: a page, or all of it, one event a line, or what was and what comes, for ever',
    content: {
      [JSON_TYPE]: { schema: Type.Array(HistoryWire) },
      [NDJSON]: { schema: Type.String() },
      [EVENT_STREAM]: { schema: Type.String() },
    },
  },
}

const DESCRIPTION =
  'What was recorded, and nothing is taken out of it later: texts of comments that were deleted stay readable. ' +
  'Ids of other repositories are shown (of a dependency, of the head of a pull request; of a fork also the name of ' +
  'its parent), also of those that the requester may not read.'

interface Opened {
  history: History
  rights: Rights
}

type Query = Static<typeof HistoryQuery>

export function historyRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { config, events, projector, publicUrl } = services

  /** Resolves to the rows of a page; undefined: the answer is on its way. */
  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    query: Query,
    { history, rights }: Opened,
  ): Promise<Static<typeof HistoryWire>[] | undefined> {
    reply.header('Vary', 'Accept')
    const filter = historyFilter(query)
    switch (preferredType(request.headers.accept, [JSON_TYPE, NDJSON, EVENT_STREAM], NAMED)) {
      case JSON_TYPE: {
        const page = pageOf(query, config)
        const asked = await seenBy(rights, filter)
        const { events: found, total } = await history.page(asked, page, clientGone(reply))
        sendPaging(request, reply, publicUrl(), page, total)
        return found.map(historyWire)
      }
      case NDJSON: {
        const signal = clientGone(reply)
        const asked = { filter, rights, projector, signal }
        // Of a long history the end comes much later: what is appended until then is not part of the answer.
        const last = await history.last()
        sendLines(request, reply, () => linesOf(history, last, asked))
        return undefined
      }
      case EVENT_STREAM: {
        const beginning = requestedBeginning(request, query.after)
        await sendLive(services, request, reply, { history, filter, rights, beginning })
        return undefined
      }
    }
  }

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/history',
      {
        schema: {
          tags: ['repository'],
          description: DESCRIPTION,
          params: PullParams,
          querystring: HistoryQuery,
          response: ANSWER,
        },
      },
      async (request, reply) => {
        const {
          repository,
          pull: { index },
        } = await onPull(services, request, 'read')
        const rows = await send(request, reply, request.query, {
          history: streamHistory(events, pullStream(repository.id, index)),
          rights: discussionRights(services, request, repository.id),
        })
        return rows ?? reply
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/history',
      {
        config: { scope: 'issue' },
        schema: {
          tags: ['issue'],
          description: DESCRIPTION,
          params: IssueParams,
          querystring: HistoryQuery,
          response: ANSWER,
        },
      },
      async (request, reply) => {
        const { repository, issue } = await onIssue(services, request, 'read')
        const rows = await send(request, reply, request.query, {
          history: streamHistory(events, discussionStream(issue)),
          rights: discussionRights(services, request, repository.id),
        })
        return rows ?? reply
      },
    )

    app.get(
      '/repos/:owner/:repo/history',
      {
        schema: {
          tags: ['repository'],
          description: DESCRIPTION,
          params: RepositoryParams,
          querystring: HistoryQuery,
          response: ANSWER,
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const rows = await send(request, reply, request.query, {
          history: indexedHistory(services, repository.id),
          rights: repositoryRights(services, request, repository.id),
        })
        return rows ?? reply
      },
    )

    app.get(
      '/admin/history',
      {
        config: { scope: 'admin' },
        schema: { tags: ['admin'], description: DESCRIPTION, querystring: HistoryQuery, response: ANSWER },
      },
      async (request, reply) => {
        siteAdmin(request, 'read the history of the server')
        const rows = await send(request, reply, request.query, {
          history: indexedHistory(services),
          rights: siteAdminRights(services, request),
        })
        return rows ?? reply
      },
    )
  }
}

/** The filter, for what the requester may see. */
async function seenBy(rights: Rights, filter: HistoryFilter): Promise<HistoryFilter> {
  // Allowed when the route asked; a requester who has lost the right since then sees nothing.
  return { ...filter, ...((await rights()) ?? { types: new Set() }) }
}

/** Breaks off when the right to see it ends: a part must not look like all of it. */
async function* linesOf(history: History, last: number, asked: HistoryRequest): AsyncGenerator<string[]> {
  for await (const batch of inBatches(history.read(asked.filter, BEGINNING, last))) {
    const seen = await seenOf(batch, asked)
    if (asked.signal.aborted) return
    if (seen === undefined) throw new Refused(refuse.notFound('this history may not be read any more'))
    yield seen.map(({ json }) => json)
  }
}
