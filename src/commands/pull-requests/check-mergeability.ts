/** Tries merges of open pull requests, and records whether they succeed. */

import type { IssueRef } from '../../events/catalog/parts.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'
import { type MergeResult, mergeTreesAll } from '../../git/merge/merge.ts'
import { GitTookTooLong, RepositoryMissing } from '../../git/process/errors.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { forEachSettled } from '../execution/for-each-settled.ts'
import { recordedTip } from './branches/branch-tips.ts'
import { type ActivePull, decideMergeability } from './pull-request.decider.ts'

/** Number of merges that one git process tries before they are recorded. */
const BATCH = 100
/** Time limit of trial merges, in milliseconds. */
export const MERGE_TRIAL_MS = 60_000

export interface MergeTrial {
  /** Time limit for all merges together, in milliseconds. */
  withinMs: number
  /** Whether a single merge over the limit counts as not mergeable. The merge itself may take longer. */
  isLastTry?: boolean
  /** Aborts git. Untried merges are not recorded. */
  signal?: AbortSignal | undefined
}

/**
 * Tries the merges of open pull requests into a repository at their present tips, and records the outcome. After a
 * failure the others are still tried. @throws GitTookTooLong when the time ran out; other failures at the end
 */
export async function checkMergeability(
  services: Services,
  context: CommandContext,
  repoId: number,
  open: readonly IssueRef[],
  trial: MergeTrial,
): Promise<void> {
  const began = performance.now()
  const left = () => ({ ...trial, withinMs: Math.max(0, trial.withinMs - (performance.now() - began)) })
  const batches: (readonly IssueRef[])[] = []
  for (let i = 0; i < open.length; i += BATCH) batches.push(open.slice(i, i + BATCH))
  await forEachSettled(batches, async (batch) => {
    try {
      await checkBatch(services, context, repoId, batch, left())
    } catch (error) {
      const isForAll =
        error instanceof RepositoryMissing ||
        error instanceof StoreUnavailable ||
        error instanceof GitTookTooLong
      if (batch.length === 1 || isForAll) throw error
      // One failure fails the batch. Separate checks fail separately.
      await forEachSettled(batch, (pull) => checkBatch(services, context, repoId, [pull], left()))
    }
  })
}

async function checkBatch(
  services: Services,
  context: CommandContext,
  repoId: number,
  open: readonly IssueRef[],
  trial: MergeTrial,
): Promise<void> {
  const checks = await Promise.all(open.map((pull) => checkOf(services, pull)))
  const due = checks.filter((check) => check !== undefined)
  const results = await tryMerges(
    services,
    repoId,
    due.flatMap(({ pair }) => pair ?? []),
    trial,
  )
  const tried = due.map((check) => ({ ...check, merge: check.pair && results.shift() }))
  await forEachSettled(tried, ({ pull, pair, merge }) =>
    recordMergeability(services, context, pull, pair, merge),
  )
}

type Pair = { ours: string; theirs: string }

/**
 * Tries a merge for a client that waits. Undefined when it takes too long: that counts as not mergeable, as in the
 * process.
 */
export async function tryMerge(
  services: Services,
  repoId: number,
  pair: Pair,
  withinMs = MERGE_TRIAL_MS,
): Promise<MergeResult | undefined> {
  const [merge] = await tryMerges(services, repoId, [pair], { withinMs, isLastTry: true })
  return merge
}

/** Returns the outcomes; an empty list for a last try over the limit. @throws GitTookTooLong before the last try */
async function tryMerges(
  services: Services,
  repoId: number,
  pairs: readonly Pair[],
  { withinMs, isLastTry = false, signal }: MergeTrial,
): Promise<MergeResult[]> {
  try {
    if (withinMs <= 0) throw new GitTookTooLong('no time is left to try merges')
    return await mergeTreesAll(gitDirOf(services, repoId), pairs, { timeout: withinMs, signal })
  } catch (error) {
    if (!isLastTry || pairs.length > 1 || !(error instanceof GitTookTooLong)) throw error
    services.log.warn({ repoId, ...pairs[0] }, 'a trial merge takes too long')
    return []
  }
}

/** Returns the merge to try, without a pair when a branch is gone; undefined when it is known to be clean. */
async function checkOf(
  services: Services,
  issue: IssueRef,
): Promise<{ pull: ActivePull; pair: Pair | undefined } | undefined> {
  const pull = await pulls.load(services, issue)
  if (pull.status !== 'open') return undefined
  const [tip, ours] = await Promise.all([recordedTip(services, pull.head), recordedTip(services, pull.base)])
  // The head may lag behind the branch of a fork, and this repository has only the head's commits.
  const theirs = tip !== undefined && pull.head.repoId !== pull.repoId ? pull.head.sha : tip
  if (theirs === undefined || ours === undefined) return { pull, pair: undefined }
  const { head, base, mergeable } = pull.mergeability
  return mergeable && head === theirs && base === ours ? undefined : { pull, pair: { ours, theirs } }
}

async function recordMergeability(
  services: Services,
  context: CommandContext,
  pull: ActivePull,
  pair: Pair | undefined,
  merge: MergeResult | undefined,
): Promise<void> {
  const checked = {
    head: pair?.theirs ?? pull.head.sha,
    base: pair?.ours ?? pull.base.sha,
    mergeable: merge?.kind === 'clean',
    conflicts: merge?.kind === 'conflicts' ? merge.files : [],
  }
  await pulls.change(services, context, pull, `mergeability ${checked.head} ${checked.base}`, (state) => {
    // After a change of the base branch, the new merge was tried already.
    if (state.status === 'none' || state.base.branch !== pull.base.branch) return []
    return decideMergeability(state, checked)
  })
}
