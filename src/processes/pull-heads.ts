/** A branch moved: open pull requests from it have a new head; those from or into it may merge differently. */
import { type CommandContext, execute } from '../commands/execute.ts'
import { decideHeadMoved, decideMergeability, pullDecider } from '../commands/pull-requests/pull-request.ts'
import { type MovedRef, recordRefs } from '../commands/refs-updated.ts'
import type { BranchPoint, DomainEvent, Recorded } from '../events/domain-events.ts'
import { pullStream } from '../events/streams.ts'
import { RepositoryMissing } from '../git/errors.ts'
import { fetchObjects } from '../git/fetch-objects.ts'
import { diffStat, mergeBase } from '../git/history.ts'
import { type MergeResult, mergeTreesAll } from '../git/merge.ts'
import { resolveRef, updateRef } from '../git/refs.ts'
import { branchId } from '../projections/branches.ts'
import { branchKey, type PullDocument, pullId } from '../projections/pulls.ts'
import { gitDirOf, type Services } from '../services.ts'
import type { ProcessManager } from './follower.ts'

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
  for (const pull of moved) await moveHead(services, context, pull)
}

/** Where a branch stands as the log tells it; undefined when it is gone. */
async function tipOf(services: Services, { repoId, branch }: BranchPoint): Promise<string | undefined> {
  return (await services.views.branches.get(branchId(repoId, branch)))?.commit.sha
}

/** The commits come to the base repository first, which shows and merges them. */
async function moveHead(services: Services, context: CommandContext, pull: PullDocument): Promise<void> {
  const { repoId, index } = pull
  const to = await tipOf(services, pull.head)
  const base = await tipOf(services, pull.base)
  if (to === undefined || base === undefined || to === pull.head.sha) return
  const dir = gitDirOf(services, repoId)
  if (pull.head.repoId !== repoId) await fetchObjects(dir, gitDirOf(services, pull.head.repoId), to)
  const ancestor = await mergeBase(dir, base, to)
  // Nothing shared any more: the head's whole content is the difference.
  const diff = await diffStat(dir, ancestor ?? base, to)
  const ref = `refs/pull/${index}/head`
  await updateRef(dir, ref, { from: await resolveRef(dir, ref), to })
  await execute(services.events, context, {
    stream: pullStream(repoId, index),
    step: `head ${to}`,
    decider: pullDecider,
    decide: (state) => decideHeadMoved(state, { to, mergeBase: ancestor ?? pull.mergeBase, diff }),
  })
}

/** One that was opened again takes over what its head and base came to meanwhile. */
export async function catchUp(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
): Promise<void> {
  const pull = await services.views.pulls.get(pullId(repoId, index))
  if (pull?.status !== 'open') return
  await moveHead(services, context, pull)
  await services.projector.waitFor(context.written, services.config.projectionWaitMs)
  await checkMergeability(services, context, repoId, [pull])
}

/** So many merges are tried by one git process, and recorded before the next ones are tried. */
const BATCH = 100

/** Tries the merges of open pull requests into one repository at the tips of now, and records the outcome. */
async function checkMergeability(
  services: Services,
  context: CommandContext,
  repoId: number,
  pulls: readonly PullDocument[],
): Promise<void> {
  const dir = gitDirOf(services, repoId)
  for (let i = 0; i < pulls.length; i += BATCH) {
    const batch = await Promise.all(
      pulls.slice(i, i + BATCH).map(async (pull) => {
        const [theirs, ours] = await Promise.all([tipOf(services, pull.head), tipOf(services, pull.base)])
        return { pull, pair: theirs === undefined || ours === undefined ? undefined : { ours, theirs } }
      }),
    )
    const pairs = batch.flatMap(({ pair }) => pair ?? [])
    const results = await mergeTreesAll(dir, pairs)
    for (const { pull, pair } of batch) {
      const result = pair && results[pairs.indexOf(pair)]
      await recordMergeability(services, context, pull, pair, result)
    }
  }
}

async function recordMergeability(
  services: Services,
  context: CommandContext,
  pull: PullDocument,
  pair: { ours: string; theirs: string } | undefined,
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
    decide: (state) => decideMergeability(state, checked),
  })
}

export function pullHeads(services: Services): ProcessManager {
  const { views } = services

  async function onRefs(
    event: Extract<Recorded<DomainEvent>, { type: 'RefsUpdated' }>,
    context: CommandContext,
  ) {
    const { repoId } = event.data
    const refs = event.data.refs.map(({ ref }) => ref)
    await moveHeads(services, context, repoId, refs)
    await services.projector.waitFor(context.written, services.config.projectionWaitMs)
    const keys = branchesOf(refs).map((branch) => branchKey(repoId, branch))
    if (keys.length === 0) return
    const [from, into] = await Promise.all([
      views.pulls.find({ headKey: { $in: keys }, status: 'open' }),
      views.pulls.find({ baseKey: { $in: keys }, status: 'open' }),
    ])
    const affected = [...new Map([...from, ...into].map((pull) => [pull.id, pull])).values()]
    // Heads may have pull requests into other repositories: one git process serves one of them.
    for (const baseId of new Set(affected.map((pull) => pull.repoId))) {
      const own = affected.filter((pull) => pull.repoId === baseId)
      await checkMergeability(services, context, baseId, own)
    }
  }

  /** A push that came while the pull request was being opened was recorded before there was one to move. */
  async function onOpened(
    event: Extract<Recorded<DomainEvent>, { type: 'PullRequestOpened' }>,
    context: CommandContext,
  ) {
    const { repoId, index, head, base } = event.data
    if ((await tipOf(services, head)) === head.sha && (await tipOf(services, base)) === base.sha) return
    await catchUp(services, context, repoId, index)
  }

  return {
    name: 'pull_heads',
    handles: ['RefsUpdated', 'PullRequestOpened', 'StatusChanged'],
    async react(event, context) {
      try {
        if (event.type === 'RefsUpdated') await onRefs(event, context)
        if (event.type === 'PullRequestOpened') await onOpened(event, context)
        if (event.type === 'StatusChanged' && !event.data.closed) {
          await catchUp(services, context, event.data.repoId, event.data.index)
        }
      } catch (error) {
        // Deleted meanwhile: nothing is left to keep up to date.
        if (!(error instanceof RepositoryMissing)) throw error
      }
    },
  }
}
