/** Merging a pull request: `POST /repos/{owner}/{repo}/pulls/{index}/merge`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { PullRequestEvent } from '../../events/domain-events.ts'
import { pullStream } from '../../events/streams.ts'
import { commitTree } from '../../git/commits.ts'
import { mergeTrees } from '../../git/merge.ts'
import { readRefs } from '../../git/refs.ts'
import { inTurn } from '../../git/slots.ts'
import { commandContext, repositoryFor, settled, signedIn } from '../../http/requests.ts'
import type { AccountDocument } from '../../projections/accounts.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { atLeast } from '../../queries/access.ts'
import { PullParams, pullFor } from '../../queries/pulls.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { type CommandContext, type Decision, execute } from '../execute.ts'
import { Refused, refuse } from '../refusal.ts'
import { signatureOf } from '../signature.ts'
import { finishMerge, mergeTurn } from './finish-merge.ts'
import {
  type ActivePull,
  decideStartMerge,
  isMergeStyle,
  type MergeRequest,
  mergeRefusal,
  type PullState,
  pullDecider,
} from './pull-request.ts'

export const MergePullRequestOption = Type.Object({
  Do: Type.Optional(Type.String()),
  MergeTitleField: Type.Optional(Type.String()),
  MergeMessageField: Type.Optional(Type.String()),
  head_commit_id: Type.Optional(Type.String()),
})

interface Merge {
  repository: RepositoryDocument
  index: number
  merger: AccountDocument
  request: MergeRequest
  title: string
  body: string
}

/** Merge rule 5: the given title or the default one, and the body after a blank line. */
export function mergeMessage(pull: ActivePull, { title, body }: { title: string; body: string }): string {
  const { head, base } = pull
  const standard = `Merge pull request '${pull.title}' (#${pull.index}) from ${head.branch} into ${base.branch}`
  return `${[title.trim() || standard, body.trim()].filter((part) => part !== '').join('\n\n')}\n`
}

/** Builds the merge commit against the tips as git has them now, and decides on it. */
async function buildMerge(
  services: Services,
  context: CommandContext,
  state: PullState,
  merge: Merge,
): Promise<Decision<PullRequestEvent>> {
  const { repository, merger, request } = merge
  const refusal = mergeRefusal(state, request)
  if (refusal !== undefined) return refusal
  const { style } = request
  if (state.status === 'none' || !isMergeStyle(style)) return []
  const dir = gitDirOf(services, repository.id)
  const headRef = `refs/heads/${state.head.branch}`
  const baseRef = `refs/heads/${state.base.branch}`
  const tips = await readRefs(dir, [headRef, baseRef])
  const base = tips.get(baseRef)
  if (base == null) return refuse.conflict(`the base branch ${state.base.branch} is gone`)
  // A head that moved and is not recorded yet must not be merged unseen, nor must what it replaced.
  if (tips.get(headRef) !== state.head.sha)
    return refuse.conflict('the head branch has just moved; try again')

  const merged = await mergeTrees(dir, base, state.head.sha)
  switch (merged.kind) {
    case 'conflicts':
      return refuse.conflict('merge conflicts', merged.files)
    case 'unrelated':
      return refuse.conflict('head and base have unrelated histories')
    case 'clean': {
      const signature = signatureOf(merger, context.at)
      const message = mergeMessage(state, merge)
      const commit = await commitTree(dir, {
        tree: merged.tree,
        parents: [base, state.head.sha],
        message,
        author: signature,
        committer: signature,
      })
      return decideStartMerge(state, {
        style,
        baseBranch: state.base.branch,
        from: base,
        head: state.head.sha,
        commit,
        message,
        by: { id: merger.id, login: merger.login },
      })
    }
  }
}

/** Intent, branch, outcome: one merge of a repository at a time. */
async function mergePull(services: Services, context: CommandContext, merge: Merge): Promise<void> {
  const { repository, index } = merge
  await inTurn(mergeTurn(repository.id), async () => {
    const state = await execute(services.events, context, {
      stream: pullStream(repository.id, index),
      step: 'merge',
      decider: pullDecider,
      decide: (current) => buildMerge(services, context, current, merge),
    })
    const failure = await finishMerge(services, context, state)
    if (failure !== undefined) throw new Refused(refuse.conflict(failure))
    // Only a retried request comes here: the merge that it asked for before has failed.
    if (state.status === 'open' && state.merging === null) {
      throw new Refused(refuse.conflict('this merge has failed; try again with another Idempotency-Key'))
    }
  })
}

export function mergePullRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/repos/:owner/:repo/pulls/:index/merge',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          body: Type.Optional(Type.Union([MergePullRequestOption, Type.Null()])),
        },
      },
      async (request, reply) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const merger = signedIn(request)
        const { index } = await pullFor(services, repository.id, request.params.index)
        const body = request.body ?? {}
        const context = commandContext(request)
        await mergePull(services, context, {
          repository,
          index,
          merger,
          request: {
            style: body.Do || 'merge',
            mayMerge: atLeast(access, 'write'),
            ...(body.head_commit_id ? { expectedHead: body.head_commit_id } : {}),
          },
          title: body.MergeTitleField ?? '',
          body: body.MergeMessageField ?? '',
        })
        await settled(services, context, reply)
        return reply.code(200).send()
      },
    )
  }
}
