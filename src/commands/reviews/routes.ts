/** Drafts, submits and deletes reviews of pull requests, and dismisses verdicts. */
import { type Static, Type } from 'typebox'
import { isOfficialReviewer } from '../../access/review-rules.ts'
import { teamIdsOf } from '../../access/team-membership.ts'
import { requireUnlocked } from '../../api/issues/issues.ts'
import { Nullable } from '../../api/nullable.ts'
import { onPull, PullParams } from '../../api/pull-requests/pulls.ts'
import { ReviewParams, ReviewWire, reviewFor, reviewWires } from '../../api/reviews/reviews.ts'
import { clientOf, signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Verdict } from '../../events/catalog/reviews.ts'
import { decode } from '../../events/codec.ts'
import { pullStream } from '../../events/streams.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import type { PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { reviewFold } from '../../projections/models/reviews/reviews.fold.ts'
import type { Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, requestContext, settled } from '../execution/request-context.ts'
import { TextOf } from '../execution/text-schema.ts'
import type { ActivePull, PullState } from '../pull-requests/pull-request.decider.ts'
import { changeOf, contentChanged, dismissesStale, reviewedMergeBase } from './compare-content.ts'
import {
  decideDeleteReview,
  decideDismiss,
  decideDraft,
  decideSubmit,
  decideUndismiss,
  draftOf,
  type NewComment,
  type NewReview,
  type SubmitFacts,
} from './review.decider.ts'
import { CreateReviewOptions, reviewFromBody } from './review-body.ts'

/** Maximum length of a dismissal, in characters: it is one line of the timeline. */
const MAX_MESSAGE = 4096

const SubmitReviewOptions = (services: Services) =>
  Type.Object(
    { body: Type.Optional(TextOf(services)), event: Type.Optional(Type.String()) },
    { title: 'SubmitPullReviewOptions' },
  )

const DismissReviewOptions = Type.Object(
  {
    message: Type.Optional(Type.String({ maxLength: MAX_MESSAGE })),
    priors: Type.Optional(
      Type.Boolean({ description: 'Whether to dismiss earlier reviews of the reviewer, too' }),
    ),
  },
  { title: 'DismissPullReviewOptions' },
)

const VERDICT_OF: ReadonlyMap<string, Verdict | 'pending'> = new Map([
  ['APPROVED', 'approved'],
  ['REQUEST_CHANGES', 'rejected'],
  ['COMMENT', 'comment'],
  ['PENDING', 'pending'],
])

/** Returns the verdict of a request's event. Rejections and drafts need a text. @throws Refused (unprocessable) */
function verdictOf(event: string, body: string): Verdict | 'pending' {
  const verdict = event === '' ? 'pending' : VERDICT_OF.get(event)
  if (verdict === undefined) {
    throw new Refused(refuse.unprocessable(`event: must be one of ${[...VERDICT_OF.keys()].join(', ')}`))
  }
  if ((verdict === 'pending' || verdict === 'rejected') && body.trim() === '') {
    throw new Refused(refuse.unprocessable(`body: a review event ${event || 'PENDING'} requires a body`))
  }
  return verdict
}

/** A review from a client. */
interface SentReview extends NewReview {
  /** Whether the client names the commit. Otherwise a draft keeps its commit. */
  namesCommit: boolean
}

/** Returns the review with its commit and merge base. */
async function withChange(services: Services, state: ActivePull, sent: SentReview): Promise<NewReview> {
  const draft = sent.namesCommit ? undefined : draftOf(state, sent.reviewer)
  const commit = draft?.commit ?? sent.commit
  const mergeBase = draft?.mergeBase ?? (await reviewedMergeBase(services, state, commit))
  return { ...sent, commit, mergeBase }
}

/** Returns the comments of a draft with their texts, from the log. */
async function draftedComments(
  { events }: Services,
  { repoId, index }: ActivePull,
  draftId: number | undefined,
): Promise<NewComment[]> {
  if (draftId === undefined) return []
  const found: NewComment[] = []
  for await (const recorded of events.readStream(pullStream(repoId, index))) {
    if (recorded.type !== 'ReviewCommentDrafted') continue
    const event = decode(recorded)
    if (event.type !== 'ReviewCommentDrafted' || event.data.reviewId !== draftId) continue
    const { repoId: _repoId, index: _index, reviewId: _reviewId, author: _author, ...comment } = event.data
    found.push(comment)
  }
  return found
}

export const reviewRoutes: Routes = (services) => {
  async function submitFacts(
    state: ActivePull,
    repository: RepositoryDocument,
    { reviewer, commit, mergeBase }: NewReview,
  ): Promise<SubmitFacts> {
    const now = (await services.views.repositories.get(`${repository.id}`)) ?? repository
    const account = (await services.views.accounts.get(`${reviewer.id}`)) ?? null
    const { branch } = state.base
    const isStale = async () =>
      mergeBase === undefined ||
      (await contentChanged(services, state.repoId, { base: mergeBase, head: commit }, changeOf(state)))
    return {
      official: account !== null && isOfficialReviewer(now, branch, account),
      stale: await isStale(),
      dismissStale: dismissesStale(now, branch),
      drafted: await draftedComments(services, state, draftOf(state, reviewer)?.id),
      teams: account === null ? [] : teamIdsOf(account),
    }
  }

  /** Drafts or submits a review. Resolves to its id. `onDraft`: refuses unless the draft has this id. */
  async function review(
    context: CommandContext,
    pull: PullDocument,
    repository: RepositoryDocument,
    verdict: Verdict | 'pending',
    sent: SentReview,
    onDraft?: number,
  ): Promise<number> {
    let id = sent.reviewId
    const state = await pulls.change(services, context, pull, 'review', async (now: PullState) => {
      if (now.status === 'none') return refuse.notFound('pull request not found')
      const draft = draftOf(now, sent.reviewer)
      if (onDraft !== undefined && draft?.id !== onDraft) {
        return refuse.unprocessable('only your own pending review can be submitted')
      }
      id = draft?.id ?? sent.reviewId
      const written = await withChange(services, now, sent)
      if (verdict === 'pending') return decideDraft(now, written)
      return decideSubmit(now, verdict, written, await submitFacts(now, repository, written))
    })
    // A retried request is not decided again: its first attempt may have submitted the draft.
    const own = state.status === 'none' ? [] : state.reviews
    if (own.some((one) => one.id === id)) return id
    return own.findLast(({ reviewer }) => reviewer.id === sent.reviewer.id)?.id ?? id
  }

  async function wireNow(repository: RepositoryDocument, pull: PullDocument, id: number) {
    const document = await loadDocument(services, 'review', {
      id,
      stream: pullStream(pull.repoId, pull.index),
      view: services.views.reviews,
      fold: reviewFold,
    })
    const [wire] = await reviewWires(services, repository, [document])
    if (wire === undefined) throw new Error(`review ${id} has no wire form`)
    return wire
  }

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/pulls/:index/reviews',
      route('repository', {
        params: PullParams,
        body: CreateReviewOptions(services),
        response: { 200: ReviewWire },
      }),
      async (request, reply) => {
        const { repository, pull, access } = await onPull(services, request, 'read')
        signedIn(request)
        requireUnlocked(pull, access)
        const { body } = request
        const verdict = verdictOf(body.event ?? '', body.body ?? '')
        const context = commandContext(request)
        const written = await reviewFromBody(services, context, pull, body, (answer) =>
          services.gitLimits.diffs.ask(clientOf(request), disconnectSignal(reply), answer),
        )
        const sent = { ...written, namesCommit: (body.commit_id ?? '').trim() !== '' }
        const id = await review(context, pull, repository, verdict, sent)
        await settled(services, context, reply)
        return await wireNow(repository, pull, id)
      },
    )

    app.post(
      '/repos/:owner/:repo/pulls/:index/reviews/:id',
      route('repository', {
        params: ReviewParams,
        body: SubmitReviewOptions(services),
        response: { 200: ReviewWire },
      }),
      async (request, reply) => {
        const { repository, pull, access } = await onPull(services, request, 'read')
        const requester = signedIn(request)
        requireUnlocked(pull, access)
        const draft = await reviewFor(services, pull, request.params.id, requester)
        const { event, body }: Static<ReturnType<typeof SubmitReviewOptions>> = request.body
        const verdict = verdictOf(event ?? '', body ?? '')
        if (verdict === 'pending') {
          throw new Refused(refuse.unprocessable('event: the review would stay pending'))
        }
        const context = commandContext(request)
        const reviewer = { id: requester.id, login: requester.login }
        const written = {
          reviewId: draft.id,
          reviewer,
          body: body ?? '',
          commit: draft.commit,
          namesCommit: false,
          comments: [],
        }
        const id = await review(context, pull, repository, verdict, written, draft.id)
        await settled(services, context, reply)
        return await wireNow(repository, pull, id)
      },
    )

    app.delete(
      '/repos/:owner/:repo/pulls/:index/reviews/:id',
      route('repository', { params: ReviewParams, response: NO_CONTENT }),
      async (request, reply) => {
        const { pull } = await onPull(services, request, 'read')
        const { id, login, siteAdmin } = signedIn(request)
        const review = await reviewFor(services, pull, request.params.id, request.requester)
        const context = requestContext(request)
        await pulls.change(services, context, pull, 'delete review', (state) =>
          decideDeleteReview(state, review.id, { id, login, siteAdmin }),
        )
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )

    app.post(
      '/repos/:owner/:repo/pulls/:index/reviews/:id/dismissals',
      route('repository', {
        params: ReviewParams,
        body: Nullable(DismissReviewOptions),
        response: { 200: ReviewWire },
      }),
      async (request, reply) => {
        const { repository, pull } = await onPull(services, request, 'admin')
        const review = await reviewFor(services, pull, request.params.id, request.requester)
        const { message, priors } = request.body ?? {}
        const context = commandContext(request)
        await pulls.change(services, context, pull, 'dismiss', (state) =>
          decideDismiss(state, review.id, { message: message ?? '', priors: priors === true }),
        )
        await settled(services, context, reply)
        return await wireNow(repository, pull, review.id)
      },
    )

    app.post(
      '/repos/:owner/:repo/pulls/:index/reviews/:id/undismissals',
      route('repository', { params: ReviewParams, response: { 200: ReviewWire } }),
      async (request, reply) => {
        const { repository, pull } = await onPull(services, request, 'admin')
        const review = await reviewFor(services, pull, request.params.id, request.requester)
        const context = commandContext(request)
        await pulls.change(services, context, pull, 'undismiss', (state) => decideUndismiss(state, review.id))
        await settled(services, context, reply)
        return await wireNow(repository, pull, review.id)
      },
    )
  }
}
