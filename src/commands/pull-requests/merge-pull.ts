/** Merges a pull request, for a client or for the process of scheduled merges. */

import { accessTo, atLeast } from '../../access/access.ts'
import { isRefusal, type Refusal, Refused, refuse } from '../../errors/refusal.ts'
import type { MergeDecision, PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import { pullStream } from '../../events/streams.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { isAncestor, mergeBase } from '../../git/commits/history.ts'
import { isObjectId } from '../../git/refs/names.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { execute } from '../execution/execute.ts'
import { shownAuthors, signatureOf } from '../users/accounts/signature.ts'
import { deleteHeadBranch } from './branches/delete-head-branch.ts'
import { buildMerge } from './build-merge.ts'
import { finishMerge, releaseHeadBase } from './finish-merge.ts'
import {
  isMergeStyle,
  type MergeFacts,
  type MergeRequest,
  mergeDecision,
  mergeRefusal,
} from './merge-checks.decider.ts'
import { gitTips, mergeFacts } from './merge-facts.ts'
import type { MessageFields } from './merge-message.ts'
import {
  type ActivePull,
  decideManuallyMerged,
  decideStartMerge,
  type PullState,
  pullDecider,
  sameApartFromCommitFacts,
} from './pull-request.decider.ts'

export interface Merge {
  repository: RepositoryDocument
  index: number
  merger: AccountDocument
  /** For a request: returns the merger by present permissions. @throws Refused when the session has ended */
  mergerNow?: () => Promise<AccountDocument>
  request: MergeRequest
  fields: MessageFields
  /** `MergeCommitID`: the commit of a manual merge. */
  manualCommit: string
  deleteBranch: boolean
  /** The repository's settings request the deletion: then to keep the branch is not an error. */
  deletionIsDefault?: boolean
}

/**
 * Records the intent, moves the base branch, records the outcome, and deletes the head branch. Call it under the lock
 * of merges (`mergeLockKey`). @throws Refused, even after a merge whose head branch could not be deleted (`merge.8`)
 */
export async function mergePull(services: Services, context: CommandContext, merge: Merge): Promise<void> {
  const { index, merger } = merge
  // The settings may have changed while the merge waited for the lock.
  const repository = await services.views.repositories.get(`${merge.repository.id}`)
  if (repository === undefined) throw new Refused(refuse.notFound('repository not found'))
  const state = await execute(services, context, {
    stream: pullStream(repository.id, index),
    step: 'merge',
    decider: pullDecider,
    decide: (current) => decideMerge(services, context, current, { ...merge, repository }),
    // The decision uses git's tips, which are compared again when the base branch moves.
    isStillValid: sameApartFromCommitFacts,
  })
  const refusal = await finishMerge(services, context, state)
  if (refusal !== undefined) throw new Refused(refusal)
  if (state.status === 'none') return
  if (state.status !== 'merged' && state.merging === null) {
    // Only a retried request arrives here: its first attempt has failed.
    throw new Refused(refuse.conflict('this merge has failed; try again with another Idempotency-Key'))
  }
  if (state.status === 'merged') await releaseHeadBase(services, context, state)
  if (!merge.deleteBranch || state.headBranchDeleted) return
  const kept = await deleteHeadBranch(services, context, state, { id: merger.id, login: merger.login })
  if (kept !== undefined && !merge.deletionIsDefault) throw new Refused(kept)
}

/** Decides the merge, and builds its commit from the present tips in git. */
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
  if (style === 'manually-merged') {
    return decideManualMerge(services, state, merge, mergeDecision(state, request, facts))
  }
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
      poster: signatureOf(services, poster, context.at),
      merger: signatureOf(services, merger, context.at),
      withShownEmails: (authors) => shownAuthors(services, authors),
      signingKey: services.config.signingKey,
    }),
    mergeBase(dir, baseTip, state.head.sha),
  ])
  // The head is in the base: like git, create no commit.
  const result = ancestor === state.head.sha ? { commit: baseTip, message: '' } : built
  if (isRefusal(result)) return result
  const now = await factsNow(services, state, merge, facts)
  if (isRefusal(now)) return now
  return decideStartMerge(state, {
    style,
    baseBranch: state.base.branch,
    from: baseTip,
    head: state.head.sha,
    mergeBase: ancestor ?? null,
    ...result,
    by: { id: merger.id, login: merger.login },
    deleteBranch,
    decision: mergeDecision(state, request, now),
  })
}

/**
 * Checks the merge again by present permissions and rules, since a merge of many commits takes long to build. Returns
 * the present facts, or a refusal; `facts` when permissions and rules have not changed.
 */
async function factsNow(
  services: Services,
  state: ActivePull,
  { repository, merger, mergerNow, request }: Merge,
  facts: MergeFacts,
): Promise<MergeFacts | Refusal> {
  await services.projector.current()
  const { accounts, repositories } = services.views
  const [rules, by] = await Promise.all([
    repositories.get(`${repository.id}`),
    mergerNow === undefined ? accounts.get(`${merger.id}`) : mergerNow(),
  ])
  if (rules === repository && by === merger) return facts
  const access = rules === undefined || by === undefined ? 'none' : accessTo(rules, by)
  if (rules === undefined || by === undefined || !atLeast(access, 'read')) {
    return refuse.notFound('repository not found')
  }
  const now = await mergeFacts(services, state, rules, by, request.style)
  return mergeRefusal(state, { ...request, force: request.force && access === 'admin' }, now) ?? now
}

/** Decides `merge.3`: the pull request counts as merged by the given commit of the base branch. */
async function decideManualMerge(
  services: Services,
  state: ActivePull,
  { repository, merger, manualCommit, deleteBranch }: Merge,
  decision: MergeDecision,
): Promise<Decision<PullRequestEvent>> {
  const commit = manualCommit.trim().toLowerCase()
  const notOnBase = refuse.conflict(`MergeCommitID: is not a commit of the base branch ${state.base.branch}`)
  if (!isObjectId(commit)) return notOnBase
  const dir = gitDirOf(services, repository.id)
  const { baseTip: tip } = await gitTips(services, state)
  if (tip === null || !(await commitFacts(dir, [commit])).has(commit)) return notOnBase
  if (!(await isAncestor(dir, commit, tip))) return notOnBase
  const by = { id: merger.id, login: merger.login }
  const merged = { style: 'manually-merged', commit, head: state.head.sha, mergeBase: null } as const
  return decideManuallyMerged(state, { ...merged, by, deleteBranch, decision })
}

/**
 * Returns the label of the head branch in a message, with the repository for a fork. Omits a fork that is hidden from
 * readers of the base.
 */
async function headLabelOf({ views }: Services, { head, base }: ActivePull): Promise<string> {
  if (head.repoId === base.repoId) return head.branch
  const fork = await views.repositories.get(`${head.repoId}`)
  const isKnown = fork !== undefined && atLeast(accessTo(fork, null), 'read')
  return isKnown ? `${fork.ownerLogin}/${fork.name}:${head.branch}` : head.branch
}
