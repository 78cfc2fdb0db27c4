/**
 * The process that merges scheduled pull requests when the checks of their head succeed and reviews allow it:
 * `docs/architecture.md#scheduled-merge`. The merge itself decides, with the head that the log and git have then. So it
 * does not matter which event started the attempt, or how often one does.
 */
import { pulls } from '../commands/aggregates.ts'
import { eachOne } from '../commands/each-one.ts'
import { type CommandContext, contended } from '../commands/execute.ts'
import { BASE_HAS_MOVED, finishMerge, mergeTurn } from '../commands/pull-requests/finish-merge.ts'
import { headHasMoved, scheduleIsGone } from '../commands/pull-requests/merge-checks.ts'
import { isWaiting } from '../commands/pull-requests/merge-facts.ts'
import { mergePull } from '../commands/pull-requests/merge-pull.ts'
import { type ActivePull, decideScheduleRefused } from '../commands/pull-requests/pull-request.ts'
import type { IssueRef, ScheduledMerge } from '../events/domain-events.ts'
import { type EventType, type Handlers, handle, handledBy } from '../events/handlers.ts'
import { RepositoryMissing } from '../git/errors.ts'
import type { PullDocument } from '../projections/pulls.ts'
import type { Views } from '../projections/views.ts'
import { type Refusal, Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import type { ProcessManager } from './process-manager.ts'

type Affected<T extends EventType> = Handlers<T, Views['pulls'], Promise<PullDocument[]>>

const scheduledOne = (view: Views['pulls'], { data: { repoId, index } }: { data: IssueRef }) =>
  view.find({ scheduled: true, repoId, index })
const scheduledInto = (view: Views['pulls'], { data: { repoId } }: { data: { repoId: number } }) =>
  view.find({ scheduled: true, repoId })

/** The scheduled pull requests that may have become ready to merge, by event type. */
const affected = {
  CommitStatusPosted: (view, { data: { repoId, sha } }) =>
    view.find({ scheduled: true, repoId, headSha: sha }),
  MergeScheduled: scheduledOne,
  PullRequestHeadMoved: scheduledOne,
  TargetBranchChanged: scheduledOne,
  MergeFailed: scheduledOne,
  // An approval is there, or what stood against a merge is gone.
  ReviewSubmitted: scheduledOne,
  ReviewDeleted: scheduledOne,
  ReviewDismissed: scheduledOne,
  ReviewUndismissed: scheduledOne,
  ReviewRequestRemoved: scheduledOne,
  TeamReviewRequestRemoved: scheduledOne,
  BranchProtectionSet: scheduledInto,
  BranchProtectionRemoved: scheduledInto,
} satisfies Partial<Affected<EventType>>

const handles = handledBy(affected)

export function scheduledMerges(services: Services): ProcessManager {
  const { views } = services

  async function attempt(context: CommandContext, pull: PullDocument): Promise<void> {
    await services.turns(mergeTurn(pull.repoId), async () => {
      const state = await pulls.load(services, pull)
      if (state.status !== 'open' || state.schedule === null) return
      if (state.merging !== null) {
        // The merge was cut off before its outcome. If it fails, the event of that starts the next attempt.
        await finishMerge(services, context, state)
        return
      }
      // The actor is the user who scheduled the merge, not the one who posted the status.
      const own = { ...context, actor: state.schedule.by }
      const refusal = await mergeScheduled(own, state, state.schedule)
      if (refusal !== undefined && !isTriedAgain(refusal)) await giveUp(own, state, refusal)
    })
  }

  /** Resolves to the refusal; undefined when it is merged, or must wait. */
  async function mergeScheduled(
    context: CommandContext,
    pull: ActivePull,
    schedule: ScheduledMerge,
  ): Promise<Refusal | undefined> {
    const repository = await views.repositories.get(`${pull.repoId}`)
    if (repository === undefined) return undefined
    const merger = await views.accounts.get(`${schedule.by.id}`)
    if (merger === undefined)
      return refuse.notFound('the user who scheduled the merge does not exist any more')
    if (await isWaiting(services, repository, pull)) return undefined
    try {
      await mergePull(services, context, {
        repository,
        index: pull.index,
        merger,
        request: {
          style: schedule.style,
          // The checks have succeeded for this commit only.
          expectedHead: schedule.expectedHead ?? pull.head.sha,
          force: false,
          scheduling: false,
          scheduledBy: schedule.by,
        },
        fields: { title: schedule.title, message: schedule.message },
        manualCommit: '',
        deleteBranch: schedule.deleteBranch,
      })
      return undefined
    } catch (error) {
      if (error instanceof RepositoryMissing) return undefined
      if (!(error instanceof Refused) || error.refusal === contended) throw error
      // The rules may have changed while the merge was built: then it waits for what they demand now.
      const now = await views.repositories.get(`${pull.repoId}`)
      return now !== undefined && (await isWaiting(services, now, pull)) ? undefined : error.refusal
    }
  }

  /** Ends the schedule. Records nothing when the merge was done and only its head branch could not be deleted. */
  async function giveUp(context: CommandContext, pull: ActivePull, refusal: Refusal): Promise<void> {
    const { message: reason, errors = [] } = refusal
    const head = pull.head.sha
    await pulls.change(services, context, pull, `schedule refused ${head}`, (state) =>
      decideScheduleRefused(state, { head, reason, errors: [...errors] }),
    )
  }

  return {
    name: 'scheduled_merges',
    handles,
    async react(event, context) {
      if (!handles(event)) return
      // A repeated reaction finds no schedule, so its events need no ids that derive from the event. And when a push
      // came first, the next attempt is another merge, with other events.
      const { retry: _retry, ...own } = context
      await eachOne(await handle(affected, views.pulls, event), (pull) => attempt(own, pull))
    },
  }
}

/** Whether another event will start the merge again: the head or the base has moved, or the schedule has changed. */
function isTriedAgain(refusal: Refusal): boolean {
  return refusal === headHasMoved || refusal === scheduleIsGone || refusal.id === BASE_HAS_MOVED
}
