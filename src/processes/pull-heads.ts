/**
 * The process that brings open pull requests up to date after their head or base branch has moved, and finishes what else
 * follows from a push.
 */

import { adoptFirstBranch } from '../commands/branches/first-branch.ts'
import { eachOne } from '../commands/each-one.ts'
import type { CommandContext } from '../commands/execute.ts'
import { branchNames, recordedTip } from '../commands/pull-requests/branch-tips.ts'
import { checkMergeability } from '../commands/pull-requests/check-mergeability.ts'
import { catchUp, moveHeads, moveMergeBases, unlessDeleted } from '../commands/pull-requests/move-heads.ts'
import type { BranchPoint, IssueRef } from '../events/domain-events.ts'
import type { RecordedOf } from '../events/handlers.ts'
import { branchKey, type PullDocument } from '../projections/pulls.ts'
import type { Services } from '../services.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

export function pullHeads(services: Services): ProcessManager {
  const { views } = services

  /** Checks the pull requests of each base repository together: one git process serves one repository. */
  async function checkAll(context: CommandContext, pulls: readonly PullDocument[]): Promise<void> {
    const affected = [...new Map(pulls.map((pull) => [pull.id, pull])).values()]
    await eachOne(new Set(affected.map((pull) => pull.repoId)), async (baseId) => {
      const own = affected.filter((pull) => pull.repoId === baseId)
      await checkMergeability(services, context, baseId, own).catch(unlessDeleted)
    })
  }

  async function onRefs({ data }: RecordedOf<'RefsUpdated'>, context: CommandContext) {
    const { repoId } = data
    const refs = data.refs.map(({ ref }) => ref)
    // What fails for one pull request must not stop what follows for the others.
    const steps = [
      () => moveHeads(services, context, repoId, refs),
      () => eachOne(data.refs, (update) => moveMergeBases(services, context, repoId, update)),
      () => checkBranches(context, repoId, refs),
      () => adoptFirstBranch(services, context, repoId, refs),
    ]
    await eachOne(steps, (step) => step())
  }

  /** Checks the pull requests from these branches and into them. */
  async function checkBranches(context: CommandContext, repoId: number, refs: readonly string[]) {
    const keys = branchNames(refs).map((branch) => branchKey(repoId, branch))
    if (keys.length === 0) return
    const [from, into] = await Promise.all([
      views.pulls.find({ headKey: { $in: keys }, status: 'open' }),
      views.pulls.find({ baseKey: { $in: keys }, status: 'open' }),
    ])
    await checkAll(context, [...from, ...into])
  }

  /** Catches up with pushes during the request: their events came before its own, and had nothing to move yet. */
  async function onBranches(pull: IssueRef, context: CommandContext, ...points: readonly BranchPoint[]) {
    const tips = await Promise.all(points.map((point) => recordedTip(services, point)))
    if (points.some(({ sha }, i) => sha !== tips[i])) await catchUp(services, context, pull)
  }

  const manager = processManager('pull_heads', {
    RefsUpdated: (context, event) => onRefs(event, context),
    PullRequestOpened: (context, { data }) => onBranches(data, context, data.head, data.base),
    TargetBranchChanged: (context, { data }) => onBranches(data, context, data.base),
    async StatusChanged(context, { data }) {
      if (!data.closed) await catchUp(services, context, data)
    },
    async RepositoryDeleted(context, { data: { repoId } }) {
      // The range of the keys of all of its branches: `;` comes right after `:`.
      const heads = { $gte: branchKey(repoId, ''), $lt: `${repoId};` }
      const from = await views.pulls.find({ headKey: heads, status: 'open' })
      await checkAll(
        context,
        from.filter((pull) => pull.repoId !== repoId),
      )
    },
  })

  return {
    ...manager,
    react(event, context) {
      // A repeated reaction finds nothing to do, so its events need no ids that derive from the event.
      const { retry: _retry, ...own } = context
      return manager.react(event, own).catch(unlessDeleted)
    },
  }
}
