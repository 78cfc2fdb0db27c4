/** Adds comments to issues and pull requests, changes and deletes them. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { idsStream } from '../../events/streams.ts'
import type { CommentDocument } from '../../projections/comments.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository, repositoryFor } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { CommentParams, CommentWire, commentFor, commentWire } from '../../wire/comments.ts'
import { IssueParams, issueFor } from '../../wire/issues.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { addComment, changeComment } from './change.ts'
import { decideDeleteComment, decideEditComment } from './comment.ts'

const CommentOption = Type.Object({ body: Type.String() })

/** The text of a comment, unchanged. @throws Refused (unprocessable) when it is blank */
function textOf({ body }: Static<typeof CommentOption>): string {
  if (body.trim() === '') throw new Refused(refuse.unprocessable('body: must not be empty'))
  return body
}

export function commentRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events, views } = services

  /** The comment in the path, for its author and for those who may write to the repository. */
  async function commentToChange(
    request: FastifyRequest,
    path: Static<typeof CommentParams>,
  ): Promise<{ repository: RepositoryDocument; comment: CommentDocument }> {
    const { repository, access } = await repositoryFor(services, request.requester, path, 'read')
    const requester = signedIn(request)
    const comment = await commentFor(services, repository.id, path.id)
    if (comment.author.id !== requester.id && !atLeast(access, 'write')) {
      throw new Refused(
        refuse.forbidden('only its author and writers of the repository may change a comment'),
      )
    }
    return { repository, comment }
  }

  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.post(
      '/repos/:owner/:repo/issues/:index/comments',
      { config, schema: { tags, params: IssueParams, body: CommentOption, response: { 201: CommentWire } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { id: authorId, login } = signedIn(request)
        const issue = await issueFor(services, repository.id, request.params.index)
        const body = textOf(request.body)
        const context = commandContext(request)
        const id = await takeNumber(events, context, idsStream('comment'))
        const author = { id: authorId, login }
        await addComment(services, context, issue, { commentId: id, author, body })
        await settled(services, context, reply)
        const { repoId, index, isPull } = issue
        const { at } = context
        const comment = (await views.comments.get(`${id}`)) ?? {
          ...{ id, repoId, index, isPull, author, body, createdAt: at, updatedAt: at },
          attachments: [],
          attachmentUuids: [],
        }
        return reply.code(201).send(await commentWire(services, repository, comment))
      },
    )

    app.patch(
      '/repos/:owner/:repo/issues/comments/:id',
      {
        config,
        schema: { tags, params: CommentParams, body: CommentOption, response: { 200: CommentWire } },
      },
      async (request, reply) => {
        const { repository, comment } = await commentToChange(request, request.params)
        const body = textOf(request.body)
        const context = commandContext(request)
        const before = context.written
        await changeComment(services, context, comment, 'edit comment', (state) =>
          decideEditComment(state, body),
        )
        await settled(services, context, reply)
        const updatedAt = context.written === before ? comment.updatedAt : context.at
        const now = { ...((await views.comments.get(`${comment.id}`)) ?? comment), body, updatedAt }
        return commentWire(services, repository, now)
      },
    )

    app.delete(
      '/repos/:owner/:repo/issues/comments/:id',
      { config, schema: { tags, params: CommentParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { comment } = await commentToChange(request, request.params)
        const context = commandContext(request)
        await changeComment(services, context, comment, 'delete comment', decideDeleteComment)
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
