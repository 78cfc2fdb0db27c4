/** Comments of issues and pull requests on the wire, and reading them. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../commands/refusal.ts'
import { pagedList } from '../http/paged-list.ts'
import { PageQuery } from '../http/paging.ts'
import { pathNumber } from '../http/path-number.ts'
import { repositoryFor } from '../http/requests.ts'
import { sendStreamedList } from '../http/streamed-list.ts'
import { type TimeRange, TimeRangeQuery, timeRange } from '../http/time-range.ts'
import type { CommentDocument } from '../projections/comments.ts'
import type { Filter } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'
import { Nullable } from '../wire/nullable.ts'
import { IssueParams, issueFor } from './issues.ts'
import { RepositoryParams } from './repositories.ts'
import { UserWire, userWire } from './users.ts'

export const CommentParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const AttachmentWire = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  size: Type.Integer(),
  download_count: Type.Integer(),
  created_at: Type.String(),
  uuid: Type.String(),
  browser_download_url: Type.String(),
})

export const CommentWire = Type.Object({
  id: Type.Integer(),
  html_url: Type.String(),
  pull_request_url: Type.String(),
  issue_url: Type.String(),
  user: Nullable(UserWire),
  original_author: Type.String(),
  original_author_id: Type.Integer(),
  body: Type.String(),
  assets: Type.Array(AttachmentWire),
  created_at: Type.String(),
  updated_at: Type.String(),
})

/** A file of a comment as Gitea's `Attachment`. Downloads are not counted. */
export function attachmentWire(
  file: CommentDocument['attachments'][number],
  publicUrl: string,
): Static<typeof AttachmentWire> {
  return {
    id: file.id,
    name: file.name,
    size: file.size,
    download_count: 0,
    created_at: file.createdAt,
    uuid: file.uuid,
    browser_download_url: `${publicUrl}/attachments/${file.uuid}`,
  }
}

/** Where people see what happened in a discussion: of the two pages that Gitea names, the other one is empty. */
export function discussionUrls(
  { ownerLogin, name }: Pick<RepositoryDocument, 'ownerLogin' | 'name'>,
  { index, isPull, id }: { index: number; isPull: boolean; id: number },
  publicUrl: string,
) {
  const page = `${publicUrl}/${ownerLogin}/${name}/${isPull ? 'pulls' : 'issues'}/${index}`
  return {
    html_url: `${page}#issuecomment-${id}`,
    pull_request_url: isPull ? page : '',
    issue_url: isPull ? '' : page,
  }
}

/** The document as Gitea's `Comment`. */
export function commentWire(
  comment: CommentDocument,
  repository: Pick<RepositoryDocument, 'ownerLogin' | 'name'>,
  author: Static<typeof UserWire> | null,
  publicUrl: string,
): Static<typeof CommentWire> {
  return {
    id: comment.id,
    ...discussionUrls(repository, comment, publicUrl),
    user: author,
    original_author: '',
    original_author_id: 0,
    body: comment.body,
    assets: comment.attachments.map((file) => attachmentWire(file, publicUrl)),
    created_at: comment.createdAt,
    updated_at: comment.updatedAt,
  }
}

/** Comments of one repository in their order; their authors are read at once. */
export async function commentWires(
  services: Services,
  repository: RepositoryDocument,
  comments: readonly CommentDocument[],
): Promise<Static<typeof CommentWire>[]> {
  const publicUrl = services.publicUrl()
  const ids = new Set(comments.map(({ author }) => `${author.id}`))
  const accounts = await services.views.accounts.getMany([...ids])
  const people = new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
  return comments.map((comment) =>
    commentWire(comment, repository, people.get(comment.author.id) ?? null, publicUrl),
  )
}

/** The repository's comment with the id in a path, or 404. */
export async function commentFor(services: Services, repoId: number, id: string): Promise<CommentDocument> {
  const number = pathNumber(id)
  const comment = number === undefined ? undefined : await services.views.comments.get(`${number}`)
  if (comment?.repoId !== repoId) throw new Refused(refuse.notFound('comment not found'))
  return comment
}

function changedIn({ since, before }: TimeRange): Filter<CommentDocument> {
  if (since === undefined && before === undefined) return {}
  return {
    updatedAt: { ...(since !== undefined && { $gte: since }), ...(before !== undefined && { $lte: before }) },
  }
}

/** Comments that are read, and held, at once: their texts may be long. */
const CHUNK = 20

export function commentQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { comments } = services.views

  /** Each read goes on behind the last of the one before, so that comments made meanwhile move nothing. */
  async function* inOrder(filter: Filter<CommentDocument>, repository: RepositoryDocument) {
    let last = 0
    for (;;) {
      const found = await comments.find({ ...filter, id: { $gt: last } }, { sort: [['id', 1]], limit: CHUNK })
      yield await commentWires(services, repository, found)
      if (found.length < CHUNK) return
      last = found.at(-1)?.id ?? last
    }
  }

  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.get(
      '/repos/:owner/:repo/issues/:index/comments',
      {
        config,
        schema: {
          tags,
          params: IssueParams,
          querystring: Type.Object(TimeRangeQuery),
          response: { 200: Type.Array(CommentWire) },
        },
      },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        const range = timeRange(request.query)
        const { index } = await issueFor(services, repository.id, request.params.index)
        const filter = { repoId: repository.id, index, ...changedIn(range) }
        // Gitea gives all of them on one page.
        reply.header('X-Total-Count', await comments.count(filter))
        reply.header('Access-Control-Expose-Headers', 'X-Total-Count')
        sendStreamedList(reply, inOrder(filter, repository))
        return reply
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/comments',
      {
        config,
        schema: {
          tags,
          params: RepositoryParams,
          querystring: Type.Object({ ...TimeRangeQuery, ...PageQuery }),
          response: { 200: Type.Array(CommentWire) },
        },
      },
      async (request, reply) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        const { query } = request
        const found = await pagedList(services, request, reply, {
          view: comments,
          filter: { repoId: repository.id, ...changedIn(timeRange(query)) },
          sort: [['id', 1]],
          query,
        })
        return commentWires(services, repository, found)
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/comments/:id',
      { config, schema: { tags, params: CommentParams, response: { 200: CommentWire } } },
      async (request) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        const comment = await commentFor(services, repository.id, request.params.id)
        const author = await services.views.accounts.get(`${comment.author.id}`)
        const publicUrl = services.publicUrl()
        const wire = author === undefined ? null : userWire(author, publicUrl)
        return commentWire(comment, repository, wire, publicUrl)
      },
    )
  }
}
