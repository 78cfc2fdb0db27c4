/** Replies to comments on lines, and resolves conversations. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { atLeast } from '../../access/access.ts'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { CommentParams } from '../../api/comments/comments.ts'
import { requireUnlocked } from '../../api/issues/issues.ts'
import { onPull, pullFor } from '../../api/pull-requests/pulls.ts'
import { placesOf } from '../../api/reviews/review-places.ts'
import {
  ReviewCommentWire,
  ReviewParams,
  reviewCommentFor,
  reviewCommentWires,
} from '../../api/reviews/reviews.ts'
import { clientOf, signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream, pullStream } from '../../events/streams.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { reviewCommentFold } from '../../projections/models/reviews/review-comments.fold.ts'
import { gitDirOf } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { TextOf } from '../execution/text-schema.ts'
import { decideReply, decideResolve } from './review.decider.ts'

export const conversationRoutes: Routes = (services) => {
  const view = services.views.reviewComments

  /** For the poster of the pull request and writers, as in Gitea. */
  async function resolve(
    request: FastifyRequest & RepositoryRequest & { params: { id: string } },
    reply: FastifyReply,
    isResolved: boolean,
  ) {
    const { repository, access } = await onRepository(services, request, 'read')
    const { id, login } = signedIn(request)
    const comment = await reviewCommentFor(services, repository.id, request.params.id)
    const pull = await pullFor(services, repository.id, `${comment.index}`)
    if (pull.poster.id !== id && !atLeast(access, 'write')) {
      throw new Refused(refuse.forbidden('only the poster and writers resolve conversations'))
    }
    const context = commandContext(request)
    if ((comment.resolver !== null) !== isResolved) {
      const of = { reviewId: comment.reviewId, commentId: comment.id }
      await pulls.change(services, context, pull, 'resolve', (state) =>
        decideResolve(state, of, isResolved ? { id, login } : null),
      )
    }
    await settled(services, context, reply)
    return reply.code(204).send(null)
  }

  return async (app) => {
    const resolving = route('repository', { params: CommentParams, response: NO_CONTENT })
    app.post('/repos/:owner/:repo/pulls/comments/:id/resolve', resolving, async (request, reply) =>
      resolve(request, reply, true),
    )
    app.post('/repos/:owner/:repo/pulls/comments/:id/unresolve', resolving, async (request, reply) =>
      resolve(request, reply, false),
    )

    app.post(
      '/repos/:owner/:repo/pulls/:index/comments/:id/replies',
      route('repository', {
        params: ReviewParams,
        body: Type.Object({ body: TextOf(services) }, { title: 'ReplyOption' }),
        response: { 201: ReviewCommentWire },
      }),
      async (request, reply) => {
        const { repository, pull, access } = await onPull(services, request, 'read')
        const { id: authorId, login } = signedIn(request)
        const root = await reviewCommentFor(services, repository.id, request.params.id)
        if (root.index !== pull.index) {
          throw new Refused(refuse.notFound('the comment belongs to another pull request'))
        }
        requireUnlocked(pull, access)
        const { body } = request.body
        if (body.trim() === '')
          throw new Refused(refuse.unprocessable('body: must not be empty', ['body: must not be empty']))
        const context = commandContext(request)
        const commentId = await takeNumber(services, context, idsStream('comment'))
        const { reviewId, path, side, line, commit, base, hunk } = root
        const answer = { commentId, path, side, line, commit, base, hunk, body }
        const author = { id: authorId, login }
        await pulls.change(services, context, pull, 'reply', (state) =>
          decideReply(state, { reviewId, to: root.id, author, reply: answer }),
        )
        await settled(services, context, reply)
        const source = {
          id: commentId,
          stream: pullStream(pull.repoId, pull.index),
          view,
          fold: reviewCommentFold,
        }
        const made = await loadDocument(services, 'review comment', source)
        const places = await placesOf(
          gitDirOf(services, pull.repoId),
          pull,
          [made],
          (signal, ask) => services.gitLimits.diffs.ask(clientOf(request), signal, ask),
          disconnectSignal(reply),
        )
        const [wire] = await reviewCommentWires(services, repository, [made], places)
        if (wire === undefined) throw new Error(`review comment ${commentId} has no wire form`)
        return reply.code(201).send(wire)
      },
    )
  }
}
