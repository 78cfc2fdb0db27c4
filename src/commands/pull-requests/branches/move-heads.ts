/** Updates open pull requests after a branch has moved: heads, and merge bases. */

import { accessTo, atLeast } from '../../../access/access.ts'
import { nextSlice } from '../../../concurrency/event-loop.ts'
import type { RefUpdate } from '../../../events/catalog/branches.ts'
import type { IssueRef } from '../../../events/catalog/parts.ts'
import type { ExpectedRevision } from '../../../events/store/event-store.ts'
import { diffStat, isAncestor, mergeBase } from '../../../git/commits/history.ts'
import { refsWithGainedCommits } from '../../../git/commits/shared-history.ts'
import type { Change } from '../../../git/diff/content-change.ts'
import { falseIfGitFailed, RepositoryMissing } from '../../../git/process/errors.ts'
import { resolveRef, updateRef } from '../../../git/refs/refs.ts'
import { fetchObjects } from '../../../git/repository/fetch-objects.ts'
import { branchKey } from '../../../projections/models/pull-requests/pulls.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { adoptDefaultBranch } from '../../branches/adopt-default-branch.ts'
import { pulls } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { forEachSettled } from '../../execution/for-each-settled.ts'
import { keepLeftObjects } from '../../git/keep-left-objects.ts'
import { recordRefs } from '../../git/record-refs.ts'
import { movedContent } from '../../reviews/compare-content.ts'
import type { MovedContent } from '../../reviews/outdated-reviews.decider.ts'
import { checkMergeability } from '../check-mergeability.ts'
import { type ActivePull, decideHeadMoved, decideMergeBaseMoved } from '../pull-request.decider.ts'
import { branchNames, recordedTip } from './branch-tips.ts'
import { closeFromDeleted } from './deleted-branches.ts'
import { movedByUsersWhoMayMerge } from './head-movers.ts'

/** Number of branches in one query. A push may have thousands. */
const BRANCHES_PER_QUERY = 200

/**
 * Records moves of refs, moves the heads of pull requests from these branches, and chooses the default branch of a
 * first push. Resolves when queries see this, so that the client gets its answer after that.
 */
export async function recordAndMoveHeads(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: 'push' | 'update',
  moved: readonly RefUpdate[],
  since: ExpectedRevision,
  options: readonly string[] = [],
): Promise<void> {
  const { projector, config } = services
  await recordRefs(services, context, repoId, cause, moved, since, options)
  // The moves are recorded, so a lagging projection is not a failure: the process `pull_heads` continues.
  if (!(await projector.waitFor(context.written, config.projectionWaitMs))) return
  const refs = moved.map(({ ref }) => ref)
  await moveHeads(services, context, repoId, refs).catch((error: unknown) =>
    services.log.warn(
      { err: error, repoId },
      'heads of pull requests are moved later, by the process pull_heads',
    ),
  )
  await closeFromDeleted(services, context, repoId, moved, context.written).catch((error: unknown) =>
    services.log.warn(
      { err: error, repoId },
      'pull requests from deleted branches are closed later, by the process pull_heads',
    ),
  )
  await adoptDefaultBranch(services, context, repoId, refs).catch((error: unknown) =>
    services.log.warn({ err: error, repoId }, 'the default branch is chosen later, by a process'),
  )
  await waitUntilVisible(services)
}

/**
 * Waits until queries see the present end of the log, since the process may have moved the head before this request.
 */
async function waitUntilVisible({ events, projector, config }: Services): Promise<void> {
  const end = await events.lastPosition().catch(() => undefined)
  if (end !== undefined) await projector.waitFor(end, config.projectionWaitMs)
}

/** Moves the heads of open pull requests from the moved branches. */
export async function moveHeads(
  services: Services,
  context: CommandContext,
  repoId: number,
  refs: readonly string[],
): Promise<void> {
  const branches = branchNames(refs)
  const moved: IssueRef[] = []
  for (let i = 0; i < branches.length; i += BRANCHES_PER_QUERY) {
    if (i > 0) await nextSlice('refs')
    const keys = branches.slice(i, i + BRANCHES_PER_QUERY).map((branch) => branchKey(repoId, branch))
    const found = await services.views.pulls.find({ headKey: { $in: keys }, status: 'open' })
    for (const pull of found) moved.push({ repoId: pull.repoId, index: pull.index })
  }
  await forEachSettled(moved, (pull) => moveHead(services, context, pull))
}

/**
 * Records the new head of one pull request, after its commits are fetched into the base repository. Runs under a lock
 * on all nodes: the process may run on another node than the push, and the earlier of two moves must not be recorded
 * last.
 */
export async function moveHead(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
): Promise<void> {
  await services
    .runExclusive(`head of ${repoId}.${index}`, async () => {
      const state = await pulls.load(services, { repoId, index })
      if (state.status !== 'open') return
      const to = await recordedTip(services, state.head)
      if (to === undefined || to === state.head.sha || !(await mayReadHead(services, state))) return
      // The head moves without a base branch, too: that may be created again.
      const base = (await recordedTip(services, state.base)) ?? state.base.sha
      const dir = gitDirOf(services, repoId)
      if (state.head.repoId !== repoId) await fetchObjects(dir, gitDirOf(services, state.head.repoId), to)
      const ancestor = await mergeBase(dir, base, to)
      // Without common history, the difference is between the whole trees.
      const diff = await diffStat(dir, ancestor ?? base, to)
      const forced = await isForced(services, dir, state.head.sha, to)
      const ref = `refs/pull/${index}/head`
      await pulls.change(services, context, state, `head ${to}`, async (current) => {
        // Read before the tip: a node that lost its lock cannot reset the ref after a later move.
        const from = await resolveRef(dir, ref)
        if ((await recordedTip(services, state.head)) !== to || current.status === 'none') return []
        await updateRef(dir, ref, { from, to })
        await keepLeftObjects(services, repoId, [{ ref, from: state.head.sha, to }])
        const moved = { to, mergeBase: ancestor ?? state.mergeBase, diff, ...(forced && { forced }) }
        const repository = await services.views.repositories.get(`${repoId}`)
        const after = { base: moved.mergeBase, head: to }
        const content = await movedContent(services, current, repository, current.base.branch, after)
        return decideHeadMoved(current, moved, await movedByUsersWhoMayMerge(services, current, to), content)
      })
    })
    .catch(unlessDeleted)
}

/** Returns whether the new head lacks the old one. A failure of git does not delay the move. */
async function isForced({ log }: Services, dir: string, from: string, to: string): Promise<boolean> {
  try {
    return (await mergeBase(dir, from, to)) !== from
  } catch (error) {
    if (error instanceof RepositoryMissing) throw error
    log.warn({ err: error, from, to }, 'cannot tell whether a head was force-pushed')
    return false
  }
}

/**
 * Returns whether the poster may read the head repository now. Without access, later commits of a private fork stay
 * private.
 */
async function mayReadHead({ views }: Services, { repoId, head, poster }: ActivePull): Promise<boolean> {
  if (head.repoId === repoId) return true
  const [repository, account] = await Promise.all([
    views.repositories.get(`${head.repoId}`),
    views.accounts.get(`${poster.id}`),
  ])
  return repository !== undefined && atLeast(accessTo(repository, account ?? null), 'read')
}

/** Ignores the error of a deleted repository. */
export function unlessDeleted(error: unknown): undefined {
  if (!(error instanceof RepositoryMissing)) throw error
}

/** Maximum wait for the trial merge of a reopened pull request, in milliseconds. */
const REOPENING_MS = 10_000

/** Updates a reopened pull request before the answer. Only logs a failure: the process `pull_heads` tries again. */
export async function catchUpAfterReopening(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
): Promise<void> {
  const pull = { repoId, index }
  try {
    await moveHead(services, context, pull)
    await checkMergeability(services, context, repoId, [pull], { withinMs: REOPENING_MS })
  } catch (error) {
    services.log.warn(
      { err: error, ...pull },
      'the head of a reopened pull request is moved later, by the process pull_heads',
    )
  }
  await waitUntilVisible(services)
}

/**
 * Updates the merge bases of the open pull requests into a moved branch. A pull request changes less when its base gets
 * some of its commits.
 */
export async function moveMergeBases(
  services: Services,
  context: CommandContext,
  repoId: number,
  { ref, from, to }: RefUpdate,
): Promise<void> {
  const [branch] = branchNames([ref])
  if (branch === undefined || from === null || to === null) return
  // Includes those whose `base.sha` is this tip: it is the base of the last trial merge, not of the merge base.
  const into = await services.views.pulls.find({ baseKey: branchKey(repoId, branch), status: 'open' })
  if (into.length === 0) return
  const dir = gitDirOf(services, repoId)
  const sharing = await refsWithGainedCommits(dir, from, to, 'refs/pull/')
  const gained = into.filter(({ index }) => sharing === undefined || sharing.has(`refs/pull/${index}/head`))
  await forEachSettled(gained, ({ index }) => moveMergeBase(services, context, { repoId, index }))
}

async function moveMergeBase(services: Services, context: CommandContext, issue: IssueRef): Promise<void> {
  const state = await pulls.load(services, issue)
  if (state.status !== 'open') return
  const base = await recordedTip(services, state.base)
  if (base === undefined) return
  const dir = gitDirOf(services, issue.repoId)
  const head = state.head.sha
  const ancestor = await mergeBase(dir, base, head)
  if (ancestor === undefined || ancestor === state.mergeBase) return
  const diff = await diffStat(dir, ancestor, head)
  await pulls.change(services, context, issue, `merge base ${ancestor} ${head}`, async (current) => {
    // After a change of the base branch, the head was compared with the new one.
    if (current.status === 'none' || current.base.branch !== state.base.branch) return []
    const content = await contentAfterBase(services, current, { base: ancestor, head })
    return decideMergeBaseMoved(current, { head, to: ancestor, diff }, content)
  })
}

/**
 * Compares the content before and after the merge base has moved, for reviews. A base that gained commits of the head
 * leaves a part of what was reviewed; one that lost commits adds to it.
 */
async function contentAfterBase(services: Services, pull: ActivePull, after: Change): Promise<MovedContent> {
  const { repoId, mergeBase, base } = pull
  // git may have pruned the old merge base. Then compare.
  const hasGained = await isAncestor(gitDirOf(services, repoId), mergeBase, after.base).catch(
    falseIfGitFailed,
  )
  if (hasGained) return { changed: false, dismissStale: false }
  const repository = await services.views.repositories.get(`${repoId}`)
  return await movedContent(services, pull, repository, base.branch, after)
}
