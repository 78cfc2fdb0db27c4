/** A branch moved: open pull requests from it have a new head; those from or into it may merge differently. */
import type { CommandContext } from '../commands/execute.ts'
import { branchesOf, tipOf } from '../commands/pull-requests/branch-tip.ts'
import { checkMergeability } from '../commands/pull-requests/check-mergeability.ts'
import { catchUp, moveHeads, moveMergeBases, unlessDeleted } from '../commands/pull-requests/move-heads.ts'
import type { BranchPoint, DomainEvent, IssueRef, Recorded } from '../events/domain-events.ts'
import { branchKey, type PullDocument } from '../projections/pulls.ts'
import type { Services } from '../services.ts'
import type { ProcessManager } from './follower.ts'

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

  async function onRefs(
    event: Extract<Recorded<DomainEvent>, { type: 'RefsUpdated' }>,
    context: CommandContext,
  ) {
    const { repoId } = event.data
    const refs = event.data.refs.map(({ ref }) => ref)
    await moveHeads(services, context, repoId, refs)
    for (const update of event.data.refs) await moveMergeBases(services, context, repoId, update)
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

  async function follow(event: Recorded<DomainEvent>, context: CommandContext): Promise<void> {
    switch (event.type) {
      case 'RefsUpdated':
        return onRefs(event, context)
      case 'PullRequestOpened':
        return onBranches(event.data, context, event.data.head, event.data.base)
      case 'TargetBranchChanged':
        return onBranches(event.data, context, event.data.base)
      case 'StatusChanged':
        return event.data.closed ? undefined : catchUp(services, context, event.data.repoId, event.data.index)
      case 'RepositoryDeleted': {
        const { repoId } = event.data
        // The keys of all of its branches: `;` comes after `:`.
        const heads = { $gte: branchKey(repoId, ''), $lt: `${repoId};` }
        const from = await views.pulls.find({ headKey: heads, status: 'open' })
        return checkAll(
          context,
          from.filter((pull) => pull.repoId !== repoId),
        )
      }
    }
  }

  return {
    name: 'pull_heads',
    handles: [
      'RefsUpdated',
      'PullRequestOpened',
      'TargetBranchChanged',
      'StatusChanged',
      'RepositoryDeleted',
    ],
    react(event, context) {
      // What is done twice finds it done, so no event needs an id that tells.
      const { retry: _retry, ...own } = context
      return follow(event, own).catch(unlessDeleted)
    },
  }
}
