/** Answers comments on lines, and says that what they are about is settled. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { idsStream, pullStream } from '../../events/streams.ts'
import { clientGone } from '../../http/client-gone.ts'
import { reviewCommentFold } from '../../projections/review-comments.ts'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository, type RepositoryRequest } from '../../rights/repository-access.ts'
import { clientOf, signedIn } from '../../rights/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { gitDirOf } from '../../services.ts'
import { CommentParams } from '../../wire/comments.ts'
import { requireUnlocked } from '../../wire/issues.ts'
import { onPull, pullFor } from '../../wire/pulls.ts'
import { placesOf } from '../../wire/review-places.ts'
import { ReviewCommentWire, ReviewParams, reviewCommentFor, reviewCommentWires } from '../../wire/reviews.ts'
import { pulls } from '../aggregates.ts'
import { documentNow } from '../document-now.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { TextOf } from '../text-schema.ts'
import { decideReply, decideResolve } from './review.ts'

export const conversationRoutes: Routes = (services) => {
  const view = services.views.reviewComments

  /** The poster of the pull request and writers may, as in Gitea. */
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
        body: Type.Object({ body: TextOf(services) }),
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
        const commentId = await takeNumber(services.events, context, idsStream('comment'))
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
        const made = await documentNow(services, 'review comment', source)
        const places = await placesOf(
          gitDirOf(services, pull.repoId),
          pull,
          [made],
          (signal, ask) => services.gitLimits.diffs.ask(clientOf(request), signal, ask),
          clientGone(reply),
        )
        const [wire] = await reviewCommentWires(services, repository, [made], places)
        if (wire === undefined) throw new Error(`review comment ${commentId} has no wire form`)
        return reply.code(201).send(wire)
      },
    )
  }
}
