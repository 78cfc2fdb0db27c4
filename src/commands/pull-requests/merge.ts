/** Merges a pull request, at once or when its checks succeed: `POST` and `DELETE …/pulls/{index}/merge`. */
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { Nullable } from '../../api/nullable.ts'
import { PullParams, pullFor } from '../../api/pull-requests/pulls.ts'
import { requesterNow } from '../../auth/auth.ts'
import { signedIn } from '../../auth/requester.ts'
import { emptyAnswer, NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { readsStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import { append } from '../execution/append.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { TextOf } from '../execution/text-schema.ts'
import { mergeLockKey } from './finish-merge.ts'
import { type Merge, mergePull } from './merge-pull.ts'
import { decideCancelSchedule } from './pull-request.decider.ts'
import { scheduleMerge } from './schedule.decider.ts'

/**
 * Maximum length of a merge title, in characters: fits the default of `merge.5` with a title of 255 and two branch
 * names.
 */
const MAX_MERGE_TITLE = 4096

const MergePullRequestOption = (services: Services) =>
  Type.Object(
    {
      Do: Type.Optional(Type.String()),
      MergeTitleField: Type.Optional(Type.String({ maxLength: MAX_MERGE_TITLE })),
      MergeMessageField: Type.Optional(TextOf(services)),
      MergeCommitID: Type.Optional(Type.String()),
      head_commit_id: Type.Optional(Type.String()),
      force_merge: Type.Optional(Type.Boolean()),
      merge_when_checks_succeed: Type.Optional(Type.Boolean()),
      delete_branch_after_merge: Type.Optional(Type.Boolean()),
    },
    { title: 'MergePullRequestOption' },
  )

/** Returns the merge with present permissions, which may have ended while it waited for the lock. */
async function withPresentPermissions(
  { views }: Services,
  request: FastifyRequest,
  merge: Merge,
): Promise<Merge> {
  const merger = await requesterNow(request)
  const repository = await views.repositories.get(`${merge.repository.id}`)
  if (repository === undefined || !atLeast(accessTo(repository, merger), 'read')) {
    throw new Refused(refuse.notFound('repository not found'))
  }
  const force = merge.request.force && accessTo(repository, merger) === 'admin'
  return { ...merge, repository, merger, request: { ...merge.request, force } }
}

export const mergePullRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/pulls/:index/merge',
    route('repository', {
      params: PullParams,
      body: Nullable(MergePullRequestOption(services)),
      response: {
        200: emptyAnswer('The pull request is merged'),
        201: emptyAnswer('The pull request will be merged when its checks succeed'),
      },
      refusals: ['notAllowed'],
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'read')
      const merger = signedIn(request)
      const { index } = await pullFor(services, repository.id, request.params.index)
      const body = request.body ?? {}
      const context = commandContext(request)
      // `merge.1`: the merger has read the pull request, even if the merge fails.
      const user = { id: merger.id, login: merger.login }
      const read = { type: 'IssueRead', data: { repoId: repository.id, index, user } } as const
      // The merge succeeds even when this append fails.
      const markedRead = append(services, context, readsStream(user.id), 'read', [read], 'any').catch(
        (error: unknown) =>
          services.log.warn({ err: error, index }, 'cannot mark a merged pull request as read'),
      )

      const merge: Merge = {
        repository,
        index,
        merger,
        mergerNow: () => requesterNow(request),
        request: {
          // `merge.4`: the style `merge` when none is given.
          style: body.Do || 'merge',
          force: body.force_merge === true && access === 'admin',
          scheduling: body.merge_when_checks_succeed === true,
          ...(body.head_commit_id ? { expectedHead: body.head_commit_id } : {}),
        },
        fields: { title: body.MergeTitleField ?? '', message: body.MergeMessageField ?? '' },
        manualCommit: body.MergeCommitID ?? '',
        deleteBranch: body.delete_branch_after_merge ?? repository.deleteBranchAfterMerge,
        deletionIsDefault: body.delete_branch_after_merge === undefined,
      }
      const merging = services.runExclusive(mergeLockKey(repository.id), async () => {
        const current = await withPresentPermissions(services, request, merge)
        if (!current.request.scheduling) {
          await mergePull(services, context, current)
          return 200
        }
        const ready = await scheduleMerge(services, context, current)
        if (ready === undefined) return 201
        await mergePull(services, context, ready)
        return 200
      })
      // After a refusal, too: the merge may be done and only its head branch kept (`merge.8`).
      const status = await merging.finally(async () => {
        await markedRead
        await settled(services, context, reply)
      })
      return reply.code(status).send()
    },
  )

  app.delete(
    '/repos/:owner/:repo/pulls/:index/merge',
    route('repository', { params: PullParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'read')
      const requester = signedIn(request)
      const pull = await pullFor(services, repository.id, request.params.index)
      const context = commandContext(request)
      // Under the lock: a started merge gets its outcome first, and a canceled one does not start.
      await services.runExclusive(mergeLockKey(repository.id), () =>
        pulls.change(services, context, pull, 'cancel schedule', (state) =>
          decideCancelSchedule(state, { id: requester.id, login: requester.login }, access === 'admin'),
        ),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
