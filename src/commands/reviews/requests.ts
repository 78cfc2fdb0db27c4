/** Asks people for reviews, and takes that back: `POST` and `DELETE …/pulls/{index}/requested_reviewers`. */
import { type Static, Type } from 'typebox'
import { idsStream, pullStream } from '../../events/streams.ts'
import type { AccountDocument } from '../../projections/accounts.ts'
import type { PullDocument } from '../../projections/pulls.ts'
import { reviewFold } from '../../projections/reviews.ts'
import { Refused, refuse } from '../../refusal.ts'
import { accessTo, atLeast, isStranger } from '../../rights/access.ts'
import type { RepositoryAccess } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import { isOfficialReviewer } from '../../rights/review-rules.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import type { Services } from '../../services.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { onPull, PullParams } from '../../wire/pulls.ts'
import { ReviewWire, reviewWires } from '../../wire/reviews.ts'
import { userNamed } from '../../wire/users.ts'
import { pulls } from '../aggregates.ts'
import { documentNow } from '../document-now.ts'
import { commandContext, requestContext, settled } from '../request-context.ts'
import { takeNumbers } from '../sequences.ts'
import { decideRemoveRequests, decideRequestReviews } from './request.ts'
import { requireReaders, teamReviewers, wantedTeams } from './wanted-teams.ts'

const MAX_REVIEWERS = 50
/** An event names the members of a team, and an append all events of a request. */
const MAX_TEAM_REVIEWERS = 20

const ReviewRequestOptions = Type.Object({
  reviewers: GivenOrNull(
    Type.Array(Type.String(), {
      maxItems: MAX_REVIEWERS,
      description: 'logins, or e-mail addresses that are shown',
    }),
  ),
  team_reviewers: GivenOrNull(
    Type.Array(Type.String(), {
      maxItems: MAX_TEAM_REVIEWERS,
      description: 'names of teams of the organization that owns the repository',
    }),
  ),
})

const unprocessable = (problem: string) => new Refused(refuse.unprocessable(problem))

/** The users with these names, each once. @throws Refused (not found) */
async function reviewersNamed(
  services: Services,
  { reviewers }: Static<typeof ReviewRequestOptions>,
): Promise<AccountDocument[]> {
  const found = new Map<number, AccountDocument>()
  for (const name of reviewers ?? []) {
    const account = name.includes('@')
      ? await services.views.accounts.findOne({ kind: 'user', email: name, showEmail: true })
      : await userNamed(services, name)
    if (account === undefined) throw new Refused(refuse.notFound('user not found'))
    found.set(account.id, account)
  }
  return [...found.values()]
}

/** Who chooses reviewers: writers, and who has opened the pull request. */
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
      const reviewers = await reviewersNamed(services, request.body)
      const stranger = reviewers.find((reviewer) => !atLeast(accessTo(repository, reviewer), 'read'))
      if (stranger !== undefined) {
        throw unprocessable(`reviewers: ${stranger.login} may not read the repository`)
      }
      const teams = await teamReviewers(services, repository, requester, request.body.team_reviewers ?? [])
      requireReaders(repository, teams)
      // Whose review is official would tell a stranger who may write. What a stranger asks for decides about no merge.
      const mayBeOfficial = !isStranger(repository, requester)
      const context = commandContext(request)
      const count = reviewers.length + teams.length
      const ids = await takeNumbers(services.events, context, idsStream('comment'), count)
      const wanted = reviewers.map((reviewer, i) => ({
        reviewer: { id: reviewer.id, login: reviewer.login },
        reviewId: ids[i] ?? 0,
        official: mayBeOfficial && isOfficialReviewer(repository, pull.base.branch, reviewer),
      }))
      const ofTeams = ids.slice(reviewers.length)
      const asked = await wantedTeams(services, repository, pull.base.branch, teams, ofTeams)
      const state = await pulls.change(services, context, pull, 'request reviews', (now) =>
        decideRequestReviews(now, wanted, asked),
      )
      await settled(services, context, reply)
      const taken = new Set(ids)
      const made = state.status === 'none' ? [] : state.reviews.filter(({ id }) => taken.has(id))
      const documents = await Promise.all(
        made.map(({ id }) =>
          documentNow(services, 'review', {
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
      const reviewers = await reviewersNamed(services, request.body)
      const teams = await teamReviewers(services, repository, requester, request.body.team_reviewers ?? [])
      const isOwn = teams.length === 0 && reviewers.every(({ id }) => id === requester.id)
      if (!isOwn && !mayChoose(found, pull, requester)) {
        throw new Refused(refuse.forbidden('only writers and the poster may take back what others are asked'))
      }
      const context = requestContext(request)
      const asked = reviewers.map(({ id, login }) => ({ id, login }))
      const ofTeams = teams.map(({ id, name }) => ({ id, name }))
      await pulls.change(services, context, pull, 'remove review requests', (now) =>
        decideRemoveRequests(now, asked, ofTeams),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
