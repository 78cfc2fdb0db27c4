/** Reading the comments of issues and pull requests. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { onRepository } from '../../access/repository-access.ts'
import {
  CommentParams,
  CommentWire,
  commentFor,
  commentWire,
  commentWires,
} from '../../api/comments/comments.ts'
import { IssueParams, issueFor } from '../../api/issues/issues.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { TimeRangeQuery } from '../../api/time-range.ts'
import { sendStreamedList } from '../../http/answers/streamed-list.ts'
import { sendOnePage, wantedPage } from '../../http/requests/paging.ts'
import type { CommentDocument } from '../../projections/models/comments/comments.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { documentsIn, filteredListSchema, type PageRequest, sendPage, updatedBetween } from '../paged-list.ts'

/** Number of comments per read. */
const CHUNK = 20
const BY_ID = [['id', 1]] as const

export function commentQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { comments } = services.views

  /** Yields all comments in batches. Each read starts after the last id, so new comments do not shift it. */
  async function* inOrder(filter: Filter<CommentDocument>, repository: RepositoryDocument) {
    let last = 0
    for (;;) {
      const rows = await comments.rows({ ...filter, id: { $gt: last } }, { sort: BY_ID, limit: CHUNK })
      for await (const part of documentsIn(comments, rows)) {
        yield await commentWires(services, repository, part)
      }
      const end = rows.at(-1)
      if (end === undefined || rows.length < CHUNK) return
      last = 'body' in end ? end.body.id : Number(end.id)
    }
  }

  function page(
    request: PageRequest,
    reply: FastifyReply,
    filter: Filter<CommentDocument>,
    repository: RepositoryDocument,
  ) {
    return sendPage(services, request, reply, { view: comments, filter, sort: BY_ID }, (found) =>
      commentWires(services, repository, found),
    )
  }

  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.get(
      '/repos/:owner/:repo/issues/:index/comments',
      {
        config,
        schema: { tags, params: IssueParams, ...filteredListSchema(CommentWire, TimeRangeQuery) },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const updated = updatedBetween(request.query)
        const { index } = await issueFor(services, repository.id, request.params.index)
        const filter = { repoId: repository.id, index, ...updated }
        if (wantedPage(request.query, services.config)) return page(request, reply, filter, repository)
        // Like Gitea: all comments on one page.
        sendOnePage(request, reply, services.publicUrl(), await comments.count(filter))
        return sendStreamedList(reply, inOrder(filter, repository))
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/comments',
      {
        config,
        schema: { tags, params: RepositoryParams, ...filteredListSchema(CommentWire, TimeRangeQuery) },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const filter = { repoId: repository.id, ...updatedBetween(request.query) }
        return page(request, reply, filter, repository)
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/comments/:id',
      { config, schema: { tags, params: CommentParams, response: { 200: CommentWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const comment = await commentFor(services, repository.id, request.params.id)
        return commentWire(services, repository, comment)
      },
    )
  }
}
