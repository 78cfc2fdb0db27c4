/** One merge, from the request to its outcome: by a client, or by the process that merges when checks succeed. */
import type { MergeStyle, PullRequestEvent } from '../../events/domain-events.ts'
import { pullStream } from '../../events/streams.ts'
import { commitFacts } from '../../git/commits.ts'
import { isAncestor, mergeBase } from '../../git/history.ts'
import { isObjectId } from '../../git/names.ts'
import type { AccountDocument } from '../../projections/accounts.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { isRefusal, Refused, refuse } from '../../refusal.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { signatureOf } from '../accounts/signature.ts'
import { type CommandContext, type Decision, execute } from '../execute.ts'
import { buildMerge } from './build-merge.ts'
import { deleteHeadBranch } from './delete-head-branch.ts'
import { finishMerge, releaseHeadBase } from './finish-merge.ts'
import { isMergeStyle, type MergeRequest, mergeRefusal } from './merge-checks.ts'
import { gitTips, mergeFacts } from './merge-facts.ts'
import type { MessageFields } from './merge-message.ts'
import {
  type ActivePull,
  decideManuallyMerged,
  decideStartMerge,
  type PullState,
  pullDecider,
  sameApartFromCommitFacts,
} from './pull-request.ts'

export interface Merge {
  repository: RepositoryDocument
  index: number
  merger: AccountDocument
  request: MergeRequest
  fields: MessageFields
  /** `MergeCommitID`: the commit of a manual merge. */
  manualCommit: string
  deleteBranch: boolean
  /** It is the repository that has its head branches deleted, not the request: one that must stay just stays. */
  deletionIsDefault?: boolean
}

/**
 * Intent, branch, outcome, head branch; one merge of a repository at a time, so only in its turn (`mergeTurn`).
 *
 * @throws Refused, also when the merge is done and its head branch could not be deleted (merge rule 8)
 */
export async function mergePull(services: Services, context: CommandContext, merge: Merge): Promise<void> {
  const { index, merger } = merge
  // Its settings may have changed while the merge waited for its turn.
  const repository = await services.views.repositories.get(`${merge.repository.id}`)
  if (repository === undefined) throw new Refused(refuse.notFound('repository not found'))
  const state = await execute(services.events, context, {
    stream: pullStream(repository.id, index),
    step: 'merge',
    decider: pullDecider,
    decide: (current) => decideMerge(services, context, current, { ...merge, repository }),
    // The tips are read from git, and compared again when the base moves.
    stands: sameApartFromCommitFacts,
  })
  const refusal = await finishMerge(services, context, state)
  if (refusal !== undefined) throw new Refused(refusal)
  if (state.status === 'none') return
  if (state.status !== 'merged' && state.merging === null) {
    // Only a retried request comes here: the merge that it asked for before has failed.
    throw new Refused(refuse.conflict('this merge has failed; try again with another Idempotency-Key'))
  }
  if (state.status === 'merged') await releaseHeadBase(services, context, state)
  if (!merge.deleteBranch || state.headBranchDeleted) return
  const kept = await deleteHeadBranch(services, context, state, { id: merger.id, login: merger.login })
  if (kept !== undefined && !merge.deletionIsDefault) throw new Refused(kept)
}

/** Checks first, then the commit, built against the tips as git has them now. */
async function decideMerge(
  services: Services,
  context: CommandContext,
  state: PullState,
  merge: Merge,
): Promise<Decision<PullRequestEvent>> {
  if (state.status === 'none') return refuse.notFound('pull request not found')
  const { repository, merger, request, deleteBranch } = merge
  const { style } = request
  const facts = await mergeFacts(services, state, repository, merger, style)
  const refusal = mergeRefusal(state, request, facts)
  if (refusal !== undefined) return refusal
  if (!isMergeStyle(style)) return []
  if (style === 'manually-merged') return decideManualMerge(services, state, merge)
  const { baseTip } = facts
  if (baseTip === null) return []
  const dir = gitDirOf(services, repository.id)
  const poster = (await services.views.accounts.get(`${state.poster.id}`)) ?? merger
  const headLabel = await headLabelOf(services, state)
  const [built, ancestor] = await Promise.all([
    buildMerge(dir, state, {
      style,
      base: baseTip,
      fields: merge.fields,
      headLabel,
      poster: signatureOf(poster, context.at),
      merger: signatureOf(merger, context.at),
      signingKey: services.config.signingKey,
    }),
    mergeBase(dir, baseTip, state.head.sha),
  ])
  // What the base has already brings nothing to it, in any style: as git, it makes no commit of it.
  const result = ancestor === state.head.sha ? { commit: baseTip, message: '' } : built
  if (isRefusal(result)) return result
  return decideStartMerge(state, {
    style,
    baseBranch: state.base.branch,
    from: baseTip,
    head: state.head.sha,
    mergeBase: ancestor ?? null,
    ...result,
    by: { id: merger.id, login: merger.login },
    deleteBranch,
  })
}

/** Merge rule 3: it counts as merged by a commit that the base branch has. */
async function decideManualMerge(
  services: Services,
  state: ActivePull,
  { repository, merger, manualCommit, deleteBranch }: Merge,
): Promise<Decision<PullRequestEvent>> {
  const commit = manualCommit.trim().toLowerCase()
  const wrong = refuse.conflict(`MergeCommitID: is no commit of the base branch ${state.base.branch}`)
  if (!isObjectId(commit)) return wrong
  const dir = gitDirOf(services, repository.id)
  const { baseTip: tip } = await gitTips(services, state)
  if (tip === null || !(await commitFacts(dir, [commit])).has(commit)) return wrong
  if (!(await isAncestor(dir, commit, tip))) return wrong
  const style: MergeStyle = 'manually-merged'
  const by = { id: merger.id, login: merger.login }
  return decideManuallyMerged(state, {
    style,
    commit,
    head: state.head.sha,
    mergeBase: null,
    by,
    deleteBranch,
  })
}

/** The head branch as a message names it: that of a fork with its repository. */
async function headLabelOf({ views }: Services, { head, base }: ActivePull): Promise<string> {
  if (head.repoId === base.repoId) return head.branch
  const fork = await views.repositories.get(`${head.repoId}`)
  return fork === undefined ? head.branch : `${fork.ownerLogin}/${fork.name}:${head.branch}`
}
