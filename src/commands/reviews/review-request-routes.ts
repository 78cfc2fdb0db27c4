/** Requests reviews, and removes requests: `POST` and `DELETE …/pulls/{index}/requested_reviewers`. */
import { Type } from 'typebox'
import { atLeast } from '../../access/access.ts'
import type { RepositoryAccess } from '../../access/repository-access.ts'
import { onPull, PullParams } from '../../api/pull-requests/pulls.ts'
import { ReviewWire, reviewWires } from '../../api/reviews/reviews.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream, pullStream } from '../../events/streams.ts'
import { hasValidBody } from '../../http/requests/deferred-validation.ts'
import type { PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import { reviewFold } from '../../projections/models/reviews/reviews.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { pulls } from '../execution/aggregates.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, requestContext, settled } from '../execution/request-context.ts'
import { takeNumbers } from '../execution/sequences.ts'
import { decideRemoveRequests, decideRequestReviews } from './review-request.decider.ts'
import { reviewerOptions, reviewersAsked, reviewersNamed, reviewRequests } from './reviewers.ts'

const ReviewRequestOptions = Type.Object(reviewerOptions, { title: 'PullReviewRequestOptions' })

/** Returns whether a user may choose reviewers: a writer, or the poster. */
const mayChoose = ({ access }: RepositoryAccess, { poster }: PullDocument, { id }: AccountDocument) =>
  atLeast(access, 'write') || poster.id === id

export const reviewRequestRoutes: Routes = (services) => async (app) => {
  const path = '/repos/:owner/:repo/pulls/:index/requested_reviewers'

  app.post(
    path,
    route('repository', {
      params: PullParams,
      body: ReviewRequestOptions,
      response: { 201: Type.Array(ReviewWire) },
    }),
    async (request, reply) => {
      const found = await onPull(services, request, 'read')
      const { repository, pull } = found
      const requester = signedIn(request)
      if (!mayChoose(found, pull, requester)) {
        throw new Refused(refuse.forbidden('only writers and the poster may choose reviewers'))
      }
      const reviewers = await reviewersAsked(services, repository, requester, request.body)
      const context = commandContext(request)
      const count = reviewers.people.length + reviewers.teams.length
      const ids = await takeNumbers(services, context, idsStream('comment'), count)
      const { branch } = pull.base
      const { wanted, asked } = await reviewRequests(services, repository, requester, branch, reviewers, ids)
      const state = await pulls.change(services, context, pull, 'request reviews', (now) =>
        decideRequestReviews(now, wanted, asked),
      )
      await settled(services, context, reply)
      const taken = new Set(ids)
      const made = state.status === 'none' ? [] : state.reviews.filter(({ id }) => taken.has(id))
      const documents = await Promise.all(
        made.map(({ id }) =>
          loadDocument(services, 'review', {
            id,
            stream: pullStream(pull.repoId, pull.index),
            view: services.views.reviews,
            fold: reviewFold,
          }),
        ),
      )
      return reply.code(201).send(await reviewWires(services, repository, documents))
    },
  )

  app.delete(
    path,
    route('repository', { params: PullParams, body: ReviewRequestOptions, response: NO_CONTENT }),
    async (request, reply) => {
      const found = await onPull(services, request, 'read')
      const { repository, pull } = found
      const requester = signedIn(request)
      const refused = refuse.forbidden('only writers and the poster may remove requests to other reviewers')
      if (!hasValidBody(request) && !mayChoose(found, pull, requester)) throw new Refused(refused)
      const { people, teams } = await reviewersNamed(services, repository, requester, request.body)
      const isOwn = teams.length === 0 && people.every(({ id }) => id === requester.id)
      if (!isOwn && !mayChoose(found, pull, requester)) throw new Refused(refused)
      const context = requestContext(request)
      const asked = people.map(({ id, login }) => ({ id, login }))
      const ofTeams = teams.map(({ id, name }) => ({ id, name }))
      await pulls.change(services, context, pull, 'remove review requests', (now) =>
        decideRemoveRequests(now, asked, ofTeams),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
