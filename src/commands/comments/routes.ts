/** Adds, changes and deletes comments of issues and pull requests. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { atLeast } from '../../access/access.ts'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { CommentParams, CommentWire, commentFor, commentWire } from '../../api/comments/comments.ts'
import { IssueParams, issueFor, requireUnlocked } from '../../api/issues/issues.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { TextOf } from '../execution/text-schema.ts'
import { addComment, changeComment } from './change.ts'
import { decideDeleteComment, decideEditComment } from './comment.decider.ts'

const IssueCommentParams = Type.Object({ ...IssueParams.properties, id: Type.String() })

const CommentOption = (services: Services) =>
  Type.Object({ body: TextOf(services) }, { title: 'CreateIssueCommentOption' })

/** Returns the text unchanged. @throws Refused (unprocessable) when it is blank */
function textOf({ body }: Static<ReturnType<typeof CommentOption>>): string {
  if (body.trim() === '') throw new Refused(refuse.unprocessable('body: must not be empty'))
  return body
}

export const commentRoutes: Routes = (services) => {
  const { views } = services

  /** Returns the comment in the path. Only its author and writers may change it. */
  async function commentToChange(request: RepositoryRequest & { params: { id: string; index?: string } }) {
    const { repository, access } = await onRepository(services, request, 'read')
    const requester = signedIn(request)
    const { id, index } = request.params
    const comment = await commentFor(services, repository.id, id)
    if (index !== undefined && index !== `${comment.index}`) {
      throw new Refused(refuse.notFound(`comment ${comment.id} belongs to another issue`))
    }
    if (comment.author.id !== requester.id && !atLeast(access, 'write')) {
      throw new Refused(
        refuse.forbidden('only its author and writers of the repository may change a comment'),
      )
    }
    return { repository, comment }
  }

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/issues/:index/comments',
      route('issue', { params: IssueParams, body: CommentOption(services), response: { 201: CommentWire } }),
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const { id: authorId, login } = signedIn(request)
        const issue = await issueFor(services, repository.id, request.params.index)
        requireUnlocked(issue, access)
        const body = textOf(request.body)
        const context = commandContext(request)
        const id = await takeNumber(services, context, idsStream('comment'))
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

    // The second path is Gitea's older one, with the issue; clients still use it.
    const edit = { body: CommentOption(services), response: { 200: CommentWire } }
    async function editComment(
      request: FastifyRequest<{ Body: { body: string } }> & Parameters<typeof commentToChange>[0],
      reply: FastifyReply,
    ) {
      const { repository, comment } = await commentToChange(request)
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
    }
    app.patch(
      '/repos/:owner/:repo/issues/comments/:id',
      route('issue', { params: CommentParams, ...edit }),
      editComment,
    )
    app.patch(
      '/repos/:owner/:repo/issues/:index/comments/:id',
      route('issue', { params: IssueCommentParams, ...edit }),
      editComment,
    )

    async function deleteComment(
      request: FastifyRequest & Parameters<typeof commentToChange>[0],
      reply: FastifyReply,
    ) {
      const { comment } = await commentToChange(request)
      const context = commandContext(request)
      await changeComment(services, context, comment, 'delete comment', decideDeleteComment)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    }
    app.delete(
      '/repos/:owner/:repo/issues/comments/:id',
      route('issue', { params: CommentParams, response: NO_CONTENT }),
      deleteComment,
    )
    app.delete(
      '/repos/:owner/:repo/issues/:index/comments/:id',
      route('issue', { params: IssueCommentParams, response: NO_CONTENT }),
      deleteComment,
    )
  }
}
