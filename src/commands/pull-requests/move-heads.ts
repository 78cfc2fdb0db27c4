/** A branch moved: the open pull requests from it have a new head, and those into it may have a new merge base. */

import type { IssueRef } from '../../events/domain-events.ts'
import { pullStream } from '../../events/streams.ts'
import { RepositoryMissing } from '../../git/errors.ts'
import { fetchObjects } from '../../git/fetch-objects.ts'
import { diffStat, mergeBase } from '../../git/history.ts'
import { resolveRef, updateRef } from '../../git/refs.ts'
import { refsSharing } from '../../git/shared-history.ts'
import { branchKey } from '../../projections/pulls.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import { type CommandContext, execute, load } from '../execute.ts'
import { type MovedRef, recordRefs } from '../git/record-refs.ts'
import { branchNames, recordedTip } from './branch-tips.ts'
import { checkMergeability } from './check-mergeability.ts'
import { decideHeadMoved, decideMergeBaseMoved, pullDecider } from './pull-request.ts'

/**
 * Records what git has done to branches, before the client is told: events, read models, and the heads of
 * the pull requests from them.
 */
export async function recordAndMoveHeads(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: 'push' | 'update',
  moved: readonly MovedRef[],
): Promise<void> {
  const { projector, config } = services
  await recordRefs(services, context, repoId, cause, moved)
  // It is recorded: a projection that lags does not make it fail, and the process catches up.
  if (!(await projector.waitFor(context.written, config.projectionWaitMs))) return
  const refs = moved.map(({ ref }) => ref)
  await moveHeads(services, context, repoId, refs).catch((error: unknown) =>
    services.log.warn({ err: error, repoId }, 'the heads of pull requests are left to the process'),
  )
  await projector.waitFor(context.written, config.projectionWaitMs)
}

/** Open pull requests whose head is one of the branches that moved take over its tip. */
export async function moveHeads(
  services: Services,
  context: CommandContext,
  repoId: number,
  refs: readonly string[],
): Promise<void> {
  const branches = branchNames(refs)
  if (branches.length === 0) return
  const moved = await services.views.pulls.find({
    headKey: { $in: branches.map((branch) => branchKey(repoId, branch)) },
    status: 'open',
  })
  const failures: unknown[] = []
  for (const pull of moved) {
    await moveHead(services, context, pull).catch((error: unknown) => failures.push(error))
  }
  // One that can't be moved now does not hold up the others.
  if (failures.length > 0) throw failures[0]
}

/**
 * The commits come to the base repository first, which shows and merges them. In turn: of two moves of a branch
 * the earlier one must not have the last word.
 */
async function moveHead(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
): Promise<void> {
  const stream = pullStream(repoId, index)
  await inTurn(`head of ${stream}`, async () => {
    const { state } = await load(services.events, stream, pullDecider)
    if (state.status !== 'open') return
    const to = await recordedTip(services, state.head)
    if (to === undefined || to === state.head.sha) return
    // A base that is gone does not keep the head where it was: it may come back.
    const base = (await recordedTip(services, state.base)) ?? state.base.sha
    const dir = gitDirOf(services, repoId)
    if (state.head.repoId !== repoId) await fetchObjects(dir, gitDirOf(services, state.head.repoId), to)
    const ancestor = await mergeBase(dir, base, to)
    // Nothing shared any more: the head's whole content is the difference.
    const diff = await diffStat(dir, ancestor ?? base, to)
    const ref = `refs/pull/${index}/head`
    await execute(services.events, context, {
      stream,
      step: `head ${to}`,
      decider: pullDecider,
      decide: async (current) => {
        // Another server may have been faster with a later move.
        if ((await recordedTip(services, state.head)) !== to) return []
        await updateRef(dir, ref, { from: await resolveRef(dir, ref), to })
        return decideHeadMoved(current, { to, mergeBase: ancestor ?? state.mergeBase, diff })
      },
    })
  }).catch(unlessDeleted)
}

/** Deleted meanwhile: nothing is left to keep up to date. */
export function unlessDeleted(error: unknown): void {
  if (!(error instanceof RepositoryMissing)) throw error
}

/** One that was opened again, or has another base, takes over what its head and base came to meanwhile. */
export async function catchUp(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
): Promise<void> {
  await moveHead(services, context, { repoId, index })
  await checkMergeability(services, context, repoId, [{ repoId, index }])
}

/**
 * Brings a reopened pull request up to date before the client gets its answer. A failure is only logged: the
 * process `pull_heads` tries again.
 */
export async function catchUpAfterReopening(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
): Promise<void> {
  await catchUp(services, context, repoId, index).catch((error: unknown) =>
    services.log.warn(
      { err: error, repoId, index },
      'the head of a reopened pull request is left to the process',
    ),
  )
  await services.projector.waitFor(context.written, services.config.projectionWaitMs)
}

/**
 * What an open pull request changes follows from what its head and base have in common: when the base takes in
 * some of its commits (of a pull request that it stands on, say), it changes less.
 */
export async function moveMergeBases(
  services: Services,
  context: CommandContext,
  repoId: number,
  { ref, from, to }: MovedRef,
): Promise<void> {
  const [branch] = branchNames([ref])
  if (branch === undefined || from === null || to === null) return
  const open = await services.views.pulls.find({ baseKey: branchKey(repoId, branch), status: 'open' })
  // Whose base is known to be there has been compared with it.
  const into = open.filter((pull) => pull.base.sha !== to)
  if (into.length === 0) return
  const dir = gitDirOf(services, repoId)
  const sharing = await refsSharing(dir, from, to, 'refs/pull/')
  for (const { index } of into) {
    if (sharing !== undefined && !sharing.has(`refs/pull/${index}/head`)) continue
    await moveMergeBase(services, context, { repoId, index })
  }
}

async function moveMergeBase(
  services: Services,
  context: CommandContext,
  { repoId, index }: IssueRef,
): Promise<void> {
  const stream = pullStream(repoId, index)
  const { state } = await load(services.events, stream, pullDecider)
  if (state.status !== 'open') return
  const base = await recordedTip(services, state.base)
  if (base === undefined) return
  const dir = gitDirOf(services, repoId)
  const head = state.head.sha
  const ancestor = await mergeBase(dir, base, head)
  if (ancestor === undefined || ancestor === state.mergeBase) return
  const diff = await diffStat(dir, ancestor, head)
  await execute(services.events, context, {
    stream,
    step: `merge base ${ancestor} ${head}`,
    decider: pullDecider,
    decide: (current) => {
      // With another base by now it has been compared with that one.
      if (current.status === 'none' || current.base.branch !== state.base.branch) return []
      return decideMergeBaseMoved(current, { head, to: ancestor, diff })
    },
  })
}
