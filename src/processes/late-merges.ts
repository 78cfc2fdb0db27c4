/**
 * Tries merges for the process `pull_heads`. What takes long would keep the pull requests of all other repositories
 * waiting, so it is noted, and a worker tries it beside the process: for whoever has taken the least time lately.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type CommandContext, newContext } from '../commands/execute.ts'
import { checkMergeability, TRY_MS } from '../commands/pull-requests/check-mergeability.ts'
import type { AccountRef, IssueRef } from '../events/domain-events.ts'
import type { Position } from '../events/event-store.ts'
import { GitFailed, GitTookTooLong, RepositoryMissing } from '../git/errors.ts'
import { createPauses } from '../pauses.ts'
import { type LateMerges as Note, openLateMerges } from '../projections/late-merges.ts'
import { createRecentUse } from '../recent-use.ts'
import type { Services } from '../services.ts'

/** How long the process waits for the pull requests of one repository, in milliseconds. */
const AT_ONCE_MS = 10_000
/** Whose events have kept the process waiting for so long lately is left to the worker at once. */
const MAX_USE_MS = 20_000
/** After this time, in milliseconds, what somebody's merges have taken counts half. */
const HALF_LIFE_MS = 10 * 60_000

/** How many repositories the worker looks at together, and how many pull requests one git process tries. */
const REPOSITORIES = 2
const PULLS = 30
/** How often a node that does not run the process looks whether it does. */
const LOOK_MS = 500
/** After a failure it is tried again after this time, in milliseconds. */
const AFTER_FAILURE_MS = 2000

const keyOf = (actor: AccountRef | null) => `${actor?.id ?? 'server'}`

export type LateMerges = ReturnType<typeof createLateMerges>

interface LateMergeOptions {
  /** How long the process waits, and how long the worker tries, in milliseconds. */
  atOnceMs?: number
  tryMs?: number
  /** To test what fails. */
  tryMerges?: typeof checkMergeability
}

/** Makes both: what the process calls (`check`), and the worker. `signal` ends the worker, and the git that it runs. */
export function createLateMerges(
  services: Services,
  signal: AbortSignal,
  { atOnceMs = AT_ONCE_MS, tryMs = TRY_MS, tryMerges = checkMergeability }: LateMergeOptions = {},
) {
  const { log, readStore } = services
  const notes = openLateMerges(readStore)
  /** Repositories with a note, and whose share it takes. */
  const waiting = new Map<number, string>()
  const busy = new Map<number, { key: string; done: Promise<void> }>()
  /** What the merges of each account have taken lately: in the process, and in the worker. */
  const inProcess = createRecentUse(HALF_LIFE_MS, () => performance.now())
  const inWorker = createRecentUse(HALF_LIFE_MS, () => performance.now())
  let working: Promise<void> = Promise.resolve()
  const { pause, wake } = createPauses(signal)

  /**
   * Tries the merges of open pull requests into one repository, or notes that they are to be tried: when that takes long,
   * or others into this repository are noted already. `position`: the event after which it is done.
   */
  async function check(
    context: CommandContext,
    position: Position,
    repoId: number,
    pulls: readonly IssueRef[],
  ): Promise<void> {
    const { actor } = context
    const key = keyOf(actor)
    const isLate = inProcess.of(key) > MAX_USE_MS || (await notes.get(repoId)) !== undefined
    if (!isLate) {
      const began = performance.now()
      try {
        return await tryMerges(services, context, repoId, pulls, { withinMs: atOnceMs })
      } catch (error) {
        if (!(error instanceof GitTookTooLong)) throw error
      } finally {
        inProcess.add(key, performance.now() - began)
      }
    }
    const indexes = pulls.map(({ index }) => index)
    await notes.add({ repoId, actor }, indexes, position)
    waiting.set(repoId, key)
    wake()
  }

  /** Tries some of a note. */
  async function tryNext({ repoId, actor, alone, pulls }: Note): Promise<void> {
    const some = pulls.slice(0, alone ? 1 : PULLS)
    const refs = some.map(({ index }) => ({ repoId, index }))
    try {
      // A single one that takes too long cannot be merged: to try it again would take as long.
      const options = { withinMs: tryMs, isLastTry: alone, signal }
      await tryMerges(services, newContext(actor, randomUUID()), repoId, refs, options)
      await notes.remove(repoId, some)
    } catch (error) {
      if (error instanceof RepositoryMissing) return await notes.forget(repoId)
      if (!(error instanceof GitTookTooLong || error instanceof GitFailed)) throw error
      if (!alone) return await notes.separate(repoId)
      // It would fail again, and again.
      log.error({ err: error, ...refs[0] }, 'whether a pull request can be merged cannot be tried')
      await notes.remove(repoId, some)
    }
  }

  async function work(repoId: number, key: string): Promise<void> {
    const began = performance.now()
    try {
      // Before the look: what is noted from now on is waiting again.
      waiting.delete(repoId)
      const note = await notes.get(repoId)
      if (note === undefined) return
      waiting.set(repoId, key)
      await tryNext(note)
    } catch (error) {
      // The note stays: the next start tries it.
      if (signal.aborted) return
      waiting.set(repoId, key)
      log.warn({ err: error, repoId }, 'merges of pull requests could not be tried; they will be tried again')
      await delay(AFTER_FAILURE_MS, undefined, { signal }).catch(() => {})
    } finally {
      busy.delete(repoId)
      inWorker.add(key, performance.now() - began)
      wake()
    }
  }

  /** Begins what may begin: of one account, one repository at a time. */
  function beginAll(): void {
    while (busy.size < REPOSITORIES) {
      const busyKeys = new Set([...busy.values()].map(({ key }) => key))
      const ready = [...waiting].filter(([repoId, key]) => !busy.has(repoId) && !busyKeys.has(key))
      const least = inWorker.least(ready.map(([, key]) => key))
      const next = ready.find(([, key]) => key === least)
      if (next === undefined) return
      const [repoId, key] = next
      busy.set(repoId, { key, done: work(repoId, key) })
    }
  }

  async function keepWorking(isHeld: () => boolean): Promise<void> {
    let isLoaded = false
    while (!signal.aborted) {
      try {
        if (!isHeld()) {
          isLoaded = false
          waiting.clear()
        } else {
          if (!isLoaded) for (const { repoId, actor } of await notes.all()) waiting.set(repoId, keyOf(actor))
          isLoaded = true
          beginAll()
        }
        await pause(LOOK_MS)
      } catch (error) {
        if (signal.aborted) break
        log.warn({ err: error }, 'the merges to try could not be read; it will be tried again')
        await delay(AFTER_FAILURE_MS, undefined, { signal }).catch(() => {})
      }
    }
    await Promise.all([...busy.values()].map(({ done }) => done))
  }

  return {
    check,
    /** To be called before the process runs. */
    prepare: notes.prepare,
    /** Begins to work on what is noted. `isHeld`: whether this node runs the process. */
    start(isHeld: () => boolean): void {
      working = keepWorking(isHeld)
    },
    /** Resolves when the worker has ended, after the signal was aborted. */
    stopped: () => working,
  }
}
