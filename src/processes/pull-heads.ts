/** A branch moved: open pull requests from it have a new head; those from or into it may merge differently. */
import { type CommandContext, execute, load } from '../commands/execute.ts'
import {
  type ActivePull,
  decideHeadMoved,
  decideMergeability,
  decideMergeBaseMoved,
  pullDecider,
} from '../commands/pull-requests/pull-request.ts'
import { type MovedRef, recordRefs } from '../commands/refs-updated.ts'
import type { BranchPoint, IssueRef } from '../events/domain-events.ts'
import type { RecordedOf } from '../events/handlers.ts'
import { pullStream } from '../events/streams.ts'
import { RepositoryMissing } from '../git/errors.ts'
import { fetchObjects } from '../git/fetch-objects.ts'
import { diffStat, mergeBase } from '../git/history.ts'
import { type MergeResult, mergeTreesAll } from '../git/merge.ts'
import { resolveRef, updateRef } from '../git/refs.ts'
import { refsSharing } from '../git/shared-history.ts'
import { inTurn } from '../git/slots.ts'
import { branchId } from '../projections/branches.ts'
import { branchKey, type PullDocument } from '../projections/pulls.ts'
import { gitDirOf, type Services } from '../services.ts'
import { type ProcessManager, processManager } from './follower.ts'

const HEADS = 'refs/heads/'

const branchesOf = (refs: readonly string[]) =>
  refs.filter((ref) => ref.startsWith(HEADS)).map((ref) => ref.slice(HEADS.length))

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
  const branches = branchesOf(refs)
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

/** Where a branch stands as the log tells it; undefined when it, or its repository, is gone. */
async function tipOf({ views }: Services, { repoId, branch }: BranchPoint): Promise<string | undefined> {
  const [repository, found] = await Promise.all([
    views.repositories.get(`${repoId}`),
    views.branches.get(branchId(repoId, branch)),
  ])
  return repository && found?.commit.sha
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
    const to = await tipOf(services, state.head)
    if (to === undefined || to === state.head.sha) return
    // A base that is gone does not keep the head where it was: it may come back.
    const base = (await tipOf(services, state.base)) ?? state.base.sha
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
        if ((await tipOf(services, state.head)) !== to) return []
        await updateRef(dir, ref, { from: await resolveRef(dir, ref), to })
        return decideHeadMoved(current, { to, mergeBase: ancestor ?? state.mergeBase, diff })
      },
    })
  }).catch(unlessDeleted)
}

/** Deleted meanwhile: nothing is left to keep up to date. */
function unlessDeleted(error: unknown): void {
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
 * What an open pull request changes follows from what its head and base have in common: when the base takes in
 * some of its commits (of a pull request that it stands on, say), it changes less.
 */
async function moveMergeBases(
  services: Services,
  context: CommandContext,
  repoId: number,
  { ref, from, to }: MovedRef,
): Promise<void> {
  const [branch] = branchesOf([ref])
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
  const base = await tipOf(services, state.base)
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

/** So many merges are tried by one git process, and recorded before the next ones are tried. */
const BATCH = 100

/** Tries the merges of open pull requests into one repository at the tips of now, and records the outcome. */
async function checkMergeability(
  services: Services,
  context: CommandContext,
  repoId: number,
  pulls: readonly IssueRef[],
): Promise<void> {
  for (let i = 0; i < pulls.length; i += BATCH) {
    const checks = await Promise.all(pulls.slice(i, i + BATCH).map((pull) => checkOf(services, pull)))
    const due = checks.filter((check) => check !== undefined)
    const results = await mergeTreesAll(
      gitDirOf(services, repoId),
      due.flatMap(({ pair }) => pair ?? []),
    )
    for (const { pull, pair } of due) {
      await recordMergeability(services, context, pull, pair, pair && results.shift())
    }
  }
}

type Pair = { ours: string; theirs: string }

/** What is to be tried: no pair when a branch is gone; nothing when that very merge is known to be clean. */
async function checkOf(
  services: Services,
  { repoId, index }: IssueRef,
): Promise<{ pull: ActivePull; pair: Pair | undefined } | undefined> {
  const { state: pull } = await load(services.events, pullStream(repoId, index), pullDecider)
  if (pull.status !== 'open') return undefined
  const [theirs, ours] = await Promise.all([tipOf(services, pull.head), tipOf(services, pull.base)])
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
  await execute(services.events, context, {
    stream: pullStream(pull.repoId, pull.index),
    step: `mergeability ${checked.head} ${checked.base}`,
    decider: pullDecider,
    decide: (state) => {
      // With another base by now it has been tried against that one.
      if (state.status === 'none' || state.base.branch !== pull.base.branch) return []
      return decideMergeability(state, checked)
    },
  })
}

export function pullHeads(services: Services): ProcessManager {
  const { views } = services

  /** Heads may have pull requests into other repositories: one git process serves one of them. */
  async function checkAll(context: CommandContext, pulls: readonly PullDocument[]): Promise<void> {
    const affected = [...new Map(pulls.map((pull) => [pull.id, pull])).values()]
    for (const baseId of new Set(affected.map((pull) => pull.repoId))) {
      const own = affected.filter((pull) => pull.repoId === baseId)
      await checkMergeability(services, context, baseId, own).catch(unlessDeleted)
    }
  }

  async function onRefs({ data }: RecordedOf<'RefsUpdated'>, context: CommandContext) {
    const { repoId } = data
    const refs = data.refs.map(({ ref }) => ref)
    await moveHeads(services, context, repoId, refs)
    for (const update of data.refs) await moveMergeBases(services, context, repoId, update)
    const keys = branchesOf(refs).map((branch) => branchKey(repoId, branch))
    if (keys.length === 0) return
    const [from, into] = await Promise.all([
      views.pulls.find({ headKey: { $in: keys }, status: 'open' }),
      views.pulls.find({ baseKey: { $in: keys }, status: 'open' }),
    ])
    await checkAll(context, [...from, ...into])
  }

  /** What was pushed while the request was carried out was recorded before it, and found nothing to move. */
  async function onBranches(
    { repoId, index }: IssueRef,
    context: CommandContext,
    ...points: readonly BranchPoint[]
  ) {
    const tips = await Promise.all(points.map((point) => tipOf(services, point)))
    if (points.some(({ sha }, i) => sha !== tips[i])) await catchUp(services, context, repoId, index)
  }

  const manager = processManager('pull_heads', {
    RefsUpdated: (context, event) => onRefs(event, context),
    PullRequestOpened: (context, { data }) => onBranches(data, context, data.head, data.base),
    TargetBranchChanged: (context, { data }) => onBranches(data, context, data.base),
    async StatusChanged(context, { data: { closed, repoId, index } }) {
      if (!closed) await catchUp(services, context, repoId, index)
    },
    async RepositoryDeleted(context, { data: { repoId } }) {
      // The keys of all of its branches: `;` comes after `:`.
      const heads = { $gte: branchKey(repoId, ''), $lt: `${repoId};` }
      const from = await views.pulls.find({ headKey: heads, status: 'open' })
      await checkAll(
        context,
        from.filter((pull) => pull.repoId !== repoId),
      )
    },
  })

  return {
    name: manager.name,
    concerns: manager.concerns,
    react(event, context) {
      // What is done twice finds it done, so no event needs an id that tells.
      const { retry: _retry, ...own } = context
      return manager.react(event, own).catch(unlessDeleted)
    },
  }
}
