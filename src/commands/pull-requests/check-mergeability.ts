/** Checks whether open pull requests can be merged, and records that. */
import type { IssueRef } from '../../events/domain-events.ts'
import { pullStream } from '../../events/streams.ts'
import { type MergeResult, mergeTreesAll } from '../../git/merge.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { type CommandContext, execute, load } from '../execute.ts'
import { recordedTip } from './branch-tips.ts'
import { type ActivePull, decideMergeability, pullDecider } from './pull-request.ts'

/** One git process tries this many merges. They are recorded before the next ones are tried. */
const BATCH = 100

/** Tries the merges of open pull requests into one repository at their present tips, and records the outcome. */
export async function checkMergeability(
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

/** The merge to try, without a pair when a branch is gone. Undefined when the same merge is known to be clean. */
async function checkOf(
  services: Services,
  { repoId, index }: IssueRef,
): Promise<{ pull: ActivePull; pair: Pair | undefined } | undefined> {
  const { state: pull } = await load(services.events, pullStream(repoId, index), pullDecider)
  if (pull.status !== 'open') return undefined
  const [theirs, ours] = await Promise.all([
    recordedTip(services, pull.head),
    recordedTip(services, pull.base),
  ])
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
      // When the base has changed since, the merge into the new base has been tried already.
      if (state.status === 'none' || state.base.branch !== pull.base.branch) return []
      return decideMergeability(state, checked)
    },
  })
}
