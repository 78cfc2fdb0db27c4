/**
 * The process that merges scheduled pull requests when the checks of their head succeed and reviews allow it: `schedule.2`,
 * `schedule.5`, `docs/architecture/decided-points.md#scheduled-merge`. The merge decides with the current head of the log
 * and git, so repeated attempts are harmless. A merge may take minutes: a worker does it, and the process waits only for quick ones.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { pulls } from '../../commands/execution/aggregates.ts'
import { type CommandContext, newContext } from '../../commands/execution/command-context.ts'
import { finishMerge, mergeLockKey } from '../../commands/pull-requests/finish-merge.ts'
import { headHasMoved, scheduleIsGone } from '../../commands/pull-requests/merge-checks.decider.ts'
import { isWaiting } from '../../commands/pull-requests/merge-facts.ts'
import { mergePull } from '../../commands/pull-requests/merge-pull.ts'
import { type ActivePull, decideScheduleRefused } from '../../commands/pull-requests/pull-request.decider.ts'
import { releasableSignal } from '../../concurrency/releasable-signal.ts'
import { createWorker, type Work } from '../../concurrency/worker.ts'
import { contended, type Refusal, Refused, refuse } from '../../errors/refusal.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { ScheduledMerge } from '../../events/catalog/pull-requests.ts'
import { type EventType, type Handlers, handle, handledBy } from '../../events/handlers.ts'
import { GitFailed, GitTookTooLong, RepositoryMissing } from '../../git/process/errors.ts'
import { type PullDocument, pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { Views } from '../../projections/views/views.ts'
import type { Services } from '../../services/services.ts'
import type { ProcessManager } from '../process-manager.ts'
import { createWaitBudget } from '../wait-budget.ts'

type Affected<T extends EventType> = Handlers<T, Views['pulls'], Promise<PullDocument[]>>

const scheduledOne = (view: Views['pulls'], { data: { repoId, index } }: { data: IssueRef }) =>
  view.find({ scheduled: true, repoId, index })
const scheduledInto = (view: Views['pulls'], { data: { repoId } }: { data: { repoId: number } }) =>
  view.find({ scheduled: true, repoId })

/** Returns the scheduled pull requests that may have become ready to merge, by event type. */
const affected = {
  CommitStatusPosted: (view, { data: { repoId, sha } }) =>
    view.find({ scheduled: true, repoId, headSha: sha }),
  MergeScheduled: scheduledOne,
  PullRequestHeadMoved: scheduledOne,
  TargetBranchChanged: scheduledOne,
  MergeFailed: scheduledOne,
  // An approval arrived, or a blocking review ended.
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

/** Maximum number of concurrent merges, each for another account. */
const PLACES = 4
/** Number of failures of git after which a merge gets one last attempt. */
const MAX_FAILURES = 3
/** Interval at which the wait for read models checks whether the server stops, in milliseconds. */
const STOP_CHECK_MS = 500
/** Number of scheduled pull requests that are read together at a start. */
const BATCH = 100

interface Attempt extends Work {
  pull: IssueRef
  /** Cause of the attempt: an event or the start of a server. */
  cause: Pick<CommandContext, 'actor' | 'correlationId' | 'causationId'>
}

const attemptOf = (pull: PullDocument, cause: Attempt['cause']): Attempt => ({
  id: pullId(pull.repoId, pull.index),
  account: `${pull.schedule?.by.id ?? pull.poster.id}`,
  pull,
  cause,
})

interface ScheduledMergeOptions {
  /** Maximum wait of the process for the merges that an event has made ready, in milliseconds. */
  atOnceMs?: number
  /** Pause after a failure, in milliseconds. */
  pauseMs?: number
}

/** Creates the process and its worker, which `signal` ends. */
export function createScheduledMerges(
  services: Services,
  signal: AbortSignal,
  { atOnceMs, pauseMs }: ScheduledMergeOptions = {},
) {
  const { views, projector, log } = services
  const waitBudget = createWaitBudget(atOnceMs)
  const worker = createWorker<Attempt>(
    {
      places: PLACES,
      pauseMs,
      // The queue is in memory, so a start checks all scheduled pull requests again. That is cheap.
      async load() {
        while (!(await projector.caughtUp(STOP_CHECK_MS))) signal.throwIfAborted()
        const ids = await views.pulls.ids({ scheduled: true })
        for (let at = 0; at < ids.length; at += BATCH) {
          const found = await views.pulls.getMany(ids.slice(at, at + BATCH))
          for (const pull of found) void worker.add(attemptOf(pull, newContext(null, randomUUID())))
        }
      },
      async work(one, failures) {
        await attempt(one, failures)
        return undefined
      },
      failed(error, one) {
        const what = one === undefined ? 'scheduled merges could not be read' : 'a scheduled merge failed'
        log.warn({ err: error, ...one?.pull }, `${what}; it will be tried again`)
      },
    },
    signal,
  )

  async function attempt({ pull, cause }: Attempt, failures: number): Promise<void> {
    await services.runExclusive(mergeLockKey(pull.repoId), async () => {
      // A repeated attempt finds no schedule, so its events need no derived ids. After a push, the next attempt is
      // another merge with other events.
      const context = newContext(cause.actor, cause.correlationId, cause.causationId)
      const state = await pulls.load(services, pull)
      if (state.status !== 'open' || state.schedule === null) return
      if (state.merging !== null) {
        // The merge has no outcome yet. If it failed, that event starts the next attempt.
        await finishMerge(services, context, state)
        return
      }
      // The actor is the user who scheduled the merge, not the author of the status.
      const own = { ...context, actor: state.schedule.by }
      const refusal = await mergeScheduled(own, state, state.schedule, failures)
      if (refusal !== undefined && !isTriedAgain(refusal)) await giveUp(own, state, refusal)
    })
  }

  /** Resolves to the refusal; undefined when it is merged or must wait. */
  async function mergeScheduled(
    context: CommandContext,
    pull: ActivePull,
    schedule: ScheduledMerge,
    failures: number,
  ): Promise<Refusal | undefined> {
    const repository = await views.repositories.get(`${pull.repoId}`)
    if (repository === undefined) return undefined
    const merger = await views.accounts.get(`${schedule.by.id}`)
    if (merger === undefined) return refuse.notFound('the user who scheduled the merge no longer exists')
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
      // A retry would take as long.
      if (error instanceof GitTookTooLong) return refuse.conflict('the merge takes too long')
      if (error instanceof GitFailed && failures >= MAX_FAILURES) {
        log.error({ err: error, repoId: pull.repoId, index: pull.index }, 'git cannot do a scheduled merge')
        return refuse.conflict('git cannot do the merge')
      }
      if (!(error instanceof Refused) || error.refusal === contended) throw error
      // The rules may have changed during the merge: then it waits for the new ones.
      const now = await views.repositories.get(`${pull.repoId}`)
      return now !== undefined && (await isWaiting(services, now, pull)) ? undefined : error.refusal
    }
  }

  /** Ends the schedule. Records nothing when the merge succeeded and only the deletion of its head branch failed. */
  async function giveUp(context: CommandContext, pull: ActivePull, refusal: Refusal): Promise<void> {
    const { message: reason, errors = [] } = refusal
    const head = pull.head.sha
    await pulls.change(services, context, pull, `schedule refused ${head}`, (state) =>
      decideScheduleRefused(state, { head, reason, errors: errors.filter((error) => error !== reason) }),
    )
  }

  const manager: ProcessManager = {
    name: 'scheduled_merges',
    handles,
    async react(event, context) {
      if (!handles(event)) return
      const found = await handle(affected, views.pulls, event)
      const added = found.map((pull) => worker.add(attemptOf(pull, context)))
      const account = `${context.actor?.id ?? 'server'}`
      const waitMs = waitBudget.with(account)
      if (added.length === 0 || waitMs === 0) return
      const over = releasableSignal(signal)
      const isOver = delay(waitMs, undefined, { signal: over.signal })
      await waitBudget.during(account, () => Promise.race([Promise.all(added), isOver.catch(() => {})]))
      over.abort()
      over.release()
    },
  }
  return { manager, start: worker.start, stopped: worker.stopped }
}

/** Whether another event will start the merge again: the head or base has moved, or the schedule has changed. */
function isTriedAgain(refusal: Refusal): boolean {
  return refusal === headHasMoved || refusal === scheduleIsGone || refusal.code === 'base_moved'
}
