/** A branch moved: open pull requests from it have a new head; those from or into it may merge differently. */
import { type CommandContext, execute } from '../commands/execute.ts'
import { decideHeadMoved, decideMergeability, pullDecider } from '../commands/pull-requests/pull-request.ts'
import type { BranchPoint, DomainEvent, Recorded } from '../events/domain-events.ts'
import { pullStream } from '../events/streams.ts'
import { RepositoryMissing } from '../git/errors.ts'
import { diffStat, mergeBase } from '../git/history.ts'
import { mergeTrees } from '../git/merge.ts'
import { resolveRef, updateRef } from '../git/refs.ts'
import { branchId } from '../projections/branches.ts'
import { branchKey, type PullDocument, pullId } from '../projections/pulls.ts'
import { gitDirOf, type Services } from '../services.ts'
import type { ProcessManager } from './follower.ts'

const HEADS = 'refs/heads/'

/** Open pull requests whose head is one of the branches that the event moved take over its tip. */
export async function moveHeads(
  services: Services,
  context: CommandContext,
  repoId: number,
  refs: readonly string[],
): Promise<void> {
  const branches = refs.filter((ref) => ref.startsWith(HEADS)).map((ref) => ref.slice(HEADS.length))
  if (branches.length === 0) return
  const moved = await services.views.pulls.find({
    headKey: { $in: branches.map((branch) => branchKey(repoId, branch)) },
    state: 'open',
  })
  for (const pull of moved) await moveHead(services, context, pull)
}

/** Where a branch stands as the log tells it; undefined when it is gone. */
async function tipOf(services: Services, { repoId, branch }: BranchPoint): Promise<string | undefined> {
  return (await services.views.branches.get(branchId(repoId, branch)))?.commit.sha
}

async function moveHead(services: Services, context: CommandContext, pull: PullDocument): Promise<void> {
  const to = await tipOf(services, pull.head)
  const base = await tipOf(services, pull.base)
  if (to === undefined || base === undefined || to === pull.head.sha) return
  const dir = gitDirOf(services, pull.repoId)
  const ancestor = await mergeBase(dir, base, to)
  // Nothing shared any more: the head's whole content is the difference.
  const diff = await diffStat(dir, ancestor ?? base, to)
  const ref = `refs/pull/${pull.index}/head`
  await updateRef(dir, ref, { from: await resolveRef(dir, ref), to })
  await execute(services.events, context, {
    stream: pullStream(pull.repoId, pull.index),
    step: `head ${to}`,
    decider: pullDecider,
    decide: (state) => decideHeadMoved(state, { to, mergeBase: ancestor ?? pull.mergeBase, diff }),
  })
}

/** Tries the merge of one open pull request at the tips of now and records whether it would be clean. */
async function checkMergeability(
  services: Services,
  context: CommandContext,
  pull: PullDocument,
): Promise<void> {
  const head = await tipOf(services, pull.head)
  const base = await tipOf(services, pull.base)
  const dir = gitDirOf(services, pull.repoId)
  const merge = head === undefined || base === undefined ? undefined : await mergeTrees(dir, base, head)
  const checked = {
    head: head ?? pull.head.sha,
    base: base ?? pull.base.sha,
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
  async function onRefs(
    event: Extract<Recorded<DomainEvent>, { type: 'RefsUpdated' }>,
    context: CommandContext,
  ) {
    const { repoId, refs } = event.data
    await moveHeads(
      services,
      context,
      repoId,
      refs.map(({ ref }) => ref),
    )
    await services.projector.waitFor(context.written, services.config.projectionWaitMs)
    const keys = refs
      .filter(({ ref }) => ref.startsWith(HEADS))
      .map(({ ref }) => branchKey(repoId, ref.slice(HEADS.length)))
    if (keys.length === 0) return
    const [from, into] = await Promise.all([
      services.views.pulls.find({ headKey: { $in: keys }, state: 'open' }),
      services.views.pulls.find({ baseKey: { $in: keys }, state: 'open' }),
    ])
    const affected = new Map([...from, ...into].map((pull) => [pull.id, pull]))
    for (const pull of affected.values()) await checkMergeability(services, context, pull)
  }

  /** A push that came while the pull request was being opened was recorded before there was one to move. */
  async function onOpened(
    event: Extract<Recorded<DomainEvent>, { type: 'PullRequestOpened' }>,
    context: CommandContext,
  ) {
    const { repoId, index, head, base } = event.data
    if ((await tipOf(services, head)) === head.sha && (await tipOf(services, base)) === base.sha) return
    const pull = await services.views.pulls.get(pullId(repoId, index))
    if (pull?.state !== 'open') return
    await moveHead(services, context, pull)
    await checkMergeability(services, context, pull)
  }

  return {
    name: 'pull_heads',
    handles: ['RefsUpdated', 'PullRequestOpened'],
    async react(event, context) {
      try {
        if (event.type === 'RefsUpdated') await onRefs(event, context)
        if (event.type === 'PullRequestOpened') await onOpened(event, context)
      } catch (error) {
        // Deleted meanwhile: nothing is left to keep up to date.
        if (!(error instanceof RepositoryMissing)) throw error
      }
    },
  }
}
