/** Reading the reviews of a pull request, with their comments on lines. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { onPull, PullParams } from '../../api/pull-requests/pulls.ts'
import { placesOf } from '../../api/reviews/review-places.ts'
import {
  ReviewCommentWire,
  ReviewParams,
  ReviewWire,
  reviewCommentWires,
  reviewFor,
  reviewWires,
  visibleReviews,
} from '../../api/reviews/reviews.ts'
import { clientOf } from '../../auth/requester.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { listSchema, pagedRows, sendPage } from '../paged-list.ts'

const BY_ID = [['id', 1]] as const

export function reviewQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { reviews, reviewComments } = services.views
  const { diffs } = services.gitLimits
  const tags = ['repository']

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/reviews',
      { schema: { tags, params: PullParams, ...listSchema(ReviewWire) } },
      async (request, reply) => {
        const { repository, pull } = await onPull(services, request, 'read')
        const { repoId, index } = pull
        const filter = { repoId, index, ...visibleReviews(request.requester) }
        return sendPage(services, request, reply, { view: reviews, filter, sort: BY_ID }, (found) =>
          reviewWires(services, repository, found),
        )
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/reviews/:id',
      { schema: { tags, params: ReviewParams, response: { 200: ReviewWire } } },
      async (request) => {
        const { repository, pull } = await onPull(services, request, 'read')
        const review = await reviewFor(services, pull, request.params.id, request.requester)
        const [wire] = await reviewWires(services, repository, [review])
        if (wire === undefined) throw new Error(`review ${review.id} has no wire form`)
        return wire
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/reviews/:id/comments',
      {
        schema: {
          tags,
          description:
            'The line of each comment in the current head of the pull request. For a removed line, `position` is 0, ' +
            'and `original_position` is the line in the commit on which the comment was written.',
          params: ReviewParams,
          ...listSchema(ReviewCommentWire),
        },
      },
      async (request, reply) => {
        const { repository, pull } = await onPull(services, request, 'read')
        const review = await reviewFor(services, pull, request.params.id, request.requester)
        const found = await reviewComments.find({ reviewId: review.id }, { sort: BY_ID })
        const shown = pagedRows(services, request, reply, found)
        const places = await placesOf(
          gitDirOf(services, pull.repoId),
          pull,
          shown,
          (signal, answer) => diffs.ask(clientOf(request), signal, answer),
          disconnectSignal(reply),
        )
        return reviewCommentWires(services, repository, shown, places)
      },
    )
  }
}
