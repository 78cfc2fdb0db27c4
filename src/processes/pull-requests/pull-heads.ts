/**
 * The process that updates open pull requests after their head or base branch has moved, and finishes other effects of
 * a push.
 */

import { adoptDefaultBranch } from '../../commands/branches/adopt-default-branch.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import { branchNames, recordedTip } from '../../commands/pull-requests/branches/branch-tips.ts'
import {
  closeFromDeleted,
  followDeleted,
  retargetFromDeleted,
} from '../../commands/pull-requests/branches/deleted-branches.ts'
import {
  moveHead,
  moveHeads,
  moveMergeBases,
  unlessDeleted,
} from '../../commands/pull-requests/branches/move-heads.ts'
import {
  followRenames,
  renamedIn,
  renameInPulls,
} from '../../commands/pull-requests/branches/renamed-branches.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { BranchPoint } from '../../events/catalog/pull-requests.ts'
import type { RecordedOf } from '../../events/handlers.ts'
import type { Position } from '../../events/store/event-store.ts'
import { branchKey, type PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'
import type { LateMerges } from './late-merges.ts'

/** `check` tries the merges of pull requests into one repository, or queues slow ones. */
export function pullHeads(services: Services, check: LateMerges['check']): ProcessManager {
  const { views } = services

  /** Checks the pull requests of each base repository together, with one git process. */
  async function checkAll(
    context: CommandContext,
    position: Position,
    pulls: readonly PullDocument[],
  ): Promise<void> {
    const affected = [...new Map(pulls.map((pull) => [pull.id, pull])).values()]
    await forEachSettled(new Set(affected.map((pull) => pull.repoId)), async (baseId) => {
      const own = affected.filter((pull) => pull.repoId === baseId)
      await check(context, position, baseId, own).catch(unlessDeleted)
    })
  }

  async function onRefs({ data, position }: RecordedOf<'RefsUpdated'>, context: CommandContext) {
    const { repoId } = data
    const refs = data.refs.map(({ ref }) => ref)
    // A failure for one pull request must not stop the others.
    const renamed = renamedIn(data)
    const steps = [
      // First, because the steps after it look up branches by their new names.
      async () => renamed && (await renameInPulls(services, context, renamed, position)),
      () => closeFromDeleted(services, context, repoId, data.refs, position),
      () => retargetFromDeleted(services, context, repoId, data.refs, position),
      () => moveHeads(services, context, repoId, refs),
      () => forEachSettled(data.refs, (update) => moveMergeBases(services, context, repoId, update)),
      () => checkBranches(context, position, repoId, refs),
      () => adoptDefaultBranch(services, context, repoId, refs),
    ]
    await forEachSettled(steps, (step) => step())
  }

  /** Checks the pull requests from and into these branches. */
  async function checkBranches(
    context: CommandContext,
    position: Position,
    repoId: number,
    refs: readonly string[],
  ) {
    const keys = branchNames(refs).map((branch) => branchKey(repoId, branch))
    if (keys.length === 0) return
    const [from, into] = await Promise.all([
      views.pulls.find({ headKey: { $in: keys }, status: 'open' }),
      views.pulls.find({ baseKey: { $in: keys }, status: 'open' }),
    ])
    await checkAll(context, position, [...from, ...into])
  }

  /** Catches up with pushes during the request: their events came before the pull request existed. */
  async function onBranches(
    pull: IssueRef,
    context: CommandContext,
    position: Position,
    ...points: readonly BranchPoint[]
  ) {
    const tips = await Promise.all(points.map((point) => recordedTip(services, point)))
    if (tips.includes(undefined)) {
      await followRenames(services, context, pull)
      await followDeleted(services, context, pull, position)
    }
    if (points.some(({ sha }, i) => sha !== tips[i])) await catchUp(context, position, pull)
  }

  /** Updates one pull request to its branches. */
  async function catchUp(context: CommandContext, position: Position, { repoId, index }: IssueRef) {
    const pull = { repoId, index }
    await moveHead(services, context, pull)
    await check(context, position, repoId, [pull])
  }

  const manager = processManager('pull_heads', {
    RefsUpdated: (context, event) => onRefs(event, context),
    PullRequestOpened: (context, { data, position }) =>
      onBranches(data, context, position, data.head, data.base),
    TargetBranchChanged: (context, { data, position }) => onBranches(data, context, position, data.base),
    // The branches may have been deleted during the merge.
    MergeFailed: (context, { data, position }) => followDeleted(services, context, data, position),
    async StatusChanged(context, { data, position }) {
      if (!data.closed) await catchUp(context, position, data)
    },
    async RepositoryDeleted(context, { data: { repoId }, position }) {
      // The key range of all branches of a repository: `;` follows `:`.
      const heads = { $gte: branchKey(repoId, ''), $lt: `${repoId};` }
      const from = await views.pulls.find({ headKey: heads, status: 'open' })
      const elsewhere = from.filter((pull) => pull.repoId !== repoId)
      await forEachSettled(elsewhere, (pull) => followDeleted(services, context, pull, position))
    },
  })

  return {
    ...manager,
    react(event, context) {
      // A repeated reaction changes nothing, so its events need no derived ids.
      const { retry: _retry, ...own } = context
      return manager.react(event, own).catch(unlessDeleted)
    },
  }
}
