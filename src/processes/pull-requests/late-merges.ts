/**
 * Tries merges for the process `pull_heads`. A slow try would block the pull requests of other repositories, so it is
 * queued for a worker, which serves the account with the least recent use first.
 */
import { randomUUID } from 'node:crypto'
import { type CommandContext, newContext } from '../../commands/execution/command-context.ts'
import { checkMergeability, MERGE_TRIAL_MS } from '../../commands/pull-requests/check-mergeability.ts'
import { createWorker, type Work } from '../../concurrency/worker.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import type { Position } from '../../events/store/event-store.ts'
import { GitFailed, GitTookTooLong, RepositoryMissing } from '../../git/process/errors.ts'
import { type LateMerges as Note, openLateMerges } from '../../projections/installation/late-merges.ts'
import type { Services } from '../../services/services.ts'
import { createWaitBudget } from '../wait-budget.ts'

/** Number of repositories that the worker reads at a time, and of pull requests per git process. */
const REPOSITORIES = 2
const PULLS = 30

interface RepositoryWork extends Work {
  repoId: number
}

const workOf = (repoId: number, actor: AccountRef | null): RepositoryWork => ({
  id: `${repoId}`,
  account: `${actor?.id ?? 'server'}`,
  repoId,
})

export type LateMerges = ReturnType<typeof createLateMerges>

interface LateMergeOptions {
  /** Time limits of the process's wait and of the worker's try, in milliseconds. */
  atOnceMs?: number
  tryMs?: number
  /** For tests of failures. */
  tryMerges?: typeof checkMergeability
}

/** Creates `check`, which the process calls, and the worker. `signal` ends the worker and its git processes. */
export function createLateMerges(
  services: Services,
  signal: AbortSignal,
  { atOnceMs, tryMs = MERGE_TRIAL_MS, tryMerges = checkMergeability }: LateMergeOptions = {},
) {
  const { log, readStore } = services
  const notes = openLateMerges(readStore)
  const waitBudget = createWaitBudget(atOnceMs)
  const worker = createWorker<RepositoryWork>(
    {
      places: REPOSITORIES,
      async load() {
        for (const { repoId, actor } of await notes.all()) void worker.add(workOf(repoId, actor))
      },
      async work({ repoId }) {
        const note = await notes.get(repoId)
        if (note === undefined) return undefined
        await tryNext(note)
        // Continue until the queue is empty, with other work in between.
        return 0
      },
      failed(error, one) {
        const what = one === undefined ? 'the merges to try could not be read' : 'merges could not be tried'
        log.warn({ err: error, repoId: one?.repoId }, `${what}; it will be tried again`)
      },
    },
    signal,
  )

  /**
   * Tries the merges of open pull requests into one repository, or queues them when they take long or when other pull
   * requests of the repository are queued. `position` is that of the event.
   */
  async function check(
    context: CommandContext,
    position: Position,
    repoId: number,
    pulls: readonly IssueRef[],
  ): Promise<void> {
    const { actor } = context
    const one = workOf(repoId, actor)
    const withinMs = waitBudget.with(one.account)
    if (withinMs > 0 && (await notes.get(repoId)) === undefined) {
      try {
        return await waitBudget.during(one.account, () =>
          tryMerges(services, context, repoId, pulls, { withinMs }),
        )
      } catch (error) {
        if (!(error instanceof GitTookTooLong)) throw error
      }
    }
    const indexes = pulls.map(({ index }) => index)
    await notes.add({ repoId, actor }, indexes, position)
    void worker.add(one)
  }

  /** Tries some of the queued pull requests of a repository. */
  async function tryNext({ repoId, actor, alone, pulls }: Note): Promise<void> {
    const some = pulls.slice(0, alone ? 1 : PULLS)
    const refs = some.map(({ index }) => ({ repoId, index }))
    try {
      // A single merge that exceeds the limit counts as not mergeable: a retry would take as long.
      const options = { withinMs: tryMs, isLastTry: alone, signal }
      await tryMerges(services, newContext(actor, randomUUID()), repoId, refs, options)
      await notes.remove(repoId, some)
    } catch (error) {
      if (error instanceof RepositoryMissing) return await notes.forget(repoId)
      if (!(error instanceof GitTookTooLong || error instanceof GitFailed)) throw error
      if (!alone) return await notes.separate(repoId)
      // A retry would fail again.
      log.error({ err: error, ...refs[0] }, 'the mergeability of a pull request cannot be checked')
      await notes.remove(repoId, some)
    }
  }

  return {
    check,
    /** Call it before the process runs. */
    prepare: notes.prepare,
    start: worker.start,
    stopped: worker.stopped,
  }
}
