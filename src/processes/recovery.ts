/**
 * Recovery: makes git and the log agree after a crash. It records pushes without an event, finishes merges without an
 * outcome and erasures, and removes files of deleted repositories.
 */
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { awaitPermissions } from '../access/await-permissions.ts'
import { finishRename, finishRenameInPulls, renameInNote } from '../commands/branches/rename-branch.ts'
import { pulls, repositories } from '../commands/execution/aggregates.ts'
import { newContext } from '../commands/execution/command-context.ts'
import { forEachSettled } from '../commands/execution/for-each-settled.ts'
import { recordJournaled } from '../commands/git/journaled-moves.ts'
import { recordRefs } from '../commands/git/record-refs.ts'
import { recordedRefs } from '../commands/git/recorded-refs.ts'
import { refLockKey } from '../commands/git/ref-lock.ts'
import { finishErasure } from '../commands/issues/erasures/erase.ts'
import { unlessDeleted } from '../commands/pull-requests/branches/move-heads.ts'
import { finishMerge, mergeLockKey } from '../commands/pull-requests/finish-merge.ts'
import { isShared } from '../config/config.ts'
import type { IssueRef } from '../events/catalog/parts.ts'
import { StoreUnavailable } from '../events/store/event-store.ts'
import { RepositoryMissing } from '../git/process/errors.ts'
import type { PushMarker } from '../git/push/push-journal.ts'
import { isServersRef } from '../git/refs/names.ts'
import { listRefs } from '../git/refs/refs.ts'
import { deleteRepository, sweepRepositories } from '../git/repository/repository.ts'
import { gitDirOf, type Services } from '../services/services.ts'

/** How long the recovery of a rename waits for the read models, in milliseconds. */
const READ_MODELS_MS = 500

const recoveryContext = () => newContext(null, randomUUID())

/**
 * Records the refs that differ between git and the log. Resolves to their number; 0 for a deleted repository.
 * @throws RepositoryMissing for any other repository that is not on disk, which may just be unmounted
 */
export async function reconcileRefs(services: Services, repoId: number): Promise<number> {
  const { refs: recorded, revision } = await recordedRefs(services, repoId)
  const refs = await listRefs(gitDirOf(services, repoId)).catch(unlessDeleted)
  if (refs === undefined) {
    if ((await repositories.load(services, repoId)).status === 'deleted') return 0
    throw new RepositoryMissing(`repository ${repoId} is not on disk`)
  }
  const actual = new Map(refs.filter(({ ref }) => !isServersRef(ref)).map(({ ref, sha }) => [ref, sha]))
  const names = new Set([...recorded.keys(), ...actual.keys()])
  const moved = [...names]
    .map((ref) => ({ ref, from: recorded.get(ref) ?? null, to: actual.get(ref) ?? null }))
    .filter(({ from, to }) => from !== to)
  await recordRefs(services, recoveryContext(), repoId, 'recovered', moved, revision)
  return moved.length
}

/**
 * Records pushes without an event: a process died during the push, or the event could not be written. A push that
 * cannot be recorded is reported in the log and `/healthz` and retried later; it blocks neither other pushes nor the
 * start.
 */
export async function recoverPushes(services: Services): Promise<void> {
  for (const marker of await services.pushJournal.unfinished()) {
    const repoId = Number(marker.key)
    await services
      .runExclusive(refLockKey(repoId), () => recoverPush(services, repoId, marker))
      .catch((error: unknown) => reportFailure(services, marker, error))
  }
}

/** Runs under the lock of the repository's refs. */
async function recoverPushesOf(services: Services, repoId: number): Promise<void> {
  for (const marker of await services.pushJournal.unfinished(`${repoId}`)) {
    await recoverPush(services, repoId, marker)
  }
}

/** Runs under the lock of the repository's refs. */
async function recoverPush(services: Services, repoId: number, marker: PushMarker): Promise<void> {
  const { pushJournal, projector, log } = services
  try {
    await pushJournal.settle(marker, gitDirOf(services, repoId))
    await recordJournaled(services, repoId).catch(unlessDeleted)
    const rename = renameInNote(await pushJournal.noteOf(marker))
    const renamedAt = rename && (await finishRename(services, rename))
    const moved = await reconcileRefs(services, repoId)
    if (rename !== undefined && renamedAt !== undefined) {
      // At a start the read models may be far behind. Then the marker stays until a later recovery.
      if (!(await projector.waitFor(renamedAt, READ_MODELS_MS))) return
      await finishRenameInPulls(services, rename, renamedAt)
    }
    await pushJournal.finish(marker)
    log.info({ repoId, moved }, 'recorded an interrupted push')
  } catch (error) {
    reportFailure(services, marker, error)
  }
}

function reportFailure({ pushJournal, log }: Services, marker: PushMarker, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error)
  // Report the same failure once.
  if (!pushJournal.failed(marker, reason)) return
  const repoId = Number(marker.key)
  log.error({ err: error, repoId }, 'an interrupted push cannot be recorded; it will be retried')
}

/**
 * Finishes interrupted merges. A merge that still runs on a node ends first, because it holds the lock. A failure is
 * logged and retried later, and does not block other merges.
 */
export async function recoverMerges(services: Services): Promise<void> {
  await forEachSettled(await services.views.pulls.find({ merging: true }), async ({ repoId, index }) => {
    await services.runExclusive(mergeLockKey(repoId), () => recoverMerge(services, { repoId, index }))
  })
}

/** Runs under the lock of the repository's merges. */
async function recoverMerge(services: Services, { repoId, index }: IssueRef): Promise<void> {
  const { pushJournal, log } = services
  try {
    const state = await pulls.load(services, { repoId, index })
    if (state.status !== 'open' || state.merging === null) return
    await services.runExclusive(refLockKey(repoId), () => pushJournal.clean(gitDirOf(services, repoId)))
    const refusal = await finishMerge(services, recoveryContext(), state)
    log.info({ repoId, index, failure: refusal?.message }, 'finished an interrupted merge')
  } catch (error) {
    // Without the log all merges must be retried.
    if (error instanceof StoreUnavailable) throw error
    log.error({ err: error, repoId, index }, 'an interrupted merge cannot be finished; it will be retried')
  }
}

/** Finishes interrupted erasures. A failure is logged and retried later. */
export async function recoverErasures(services: Services): Promise<void> {
  await forEachSettled(await services.views.erasures.find({}), async (erasure) => {
    try {
      await finishErasure(services, recoveryContext(), erasure)
    } catch (error) {
      const { repoId, index } = erasure
      services.log.warn({ err: error, repoId, index }, 'an erasure cannot be finished; it will be retried')
    }
  })
}

/**
 * Recovers what a dead node has left of a repository (pushes or merges, by the kind of the lock) before another node
 * uses the lock. Other locks need no recovery.
 */
export async function recoverUnderLock(services: Services, key: string): Promise<void> {
  const repoId = Number(/ (\d+)$/.exec(key)?.[1])
  if (key === refLockKey(repoId)) {
    await services.pushJournal.clean(gitDirOf(services, repoId))
    await recoverPushesOf(services, repoId)
  }
  if (key === mergeLockKey(repoId)) {
    await awaitPermissions(services)
    // A merge would find neither the old nor the new base of a pull request.
    await services.runExclusive(refLockKey(repoId), () => recoverPushesOf(services, repoId))
    const merging = await services.views.pulls.find({ repoId, merging: true })
    for (const pull of merging) await recoverMerge(services, pull)
  }
}

/**
 * Finishes interrupted deletions of repositories. Removes only those that the log records as deleted: after a wrong
 * setting, an unknown directory may hold another installation's code.
 */
export async function finishDeletions(services: Services): Promise<void> {
  await sweepRepositories(services.gitDir, { isShared: isShared(services.config) })
  for (const name of await readdir(services.gitDir)) {
    const id = /^(\d+)\.git$/.exec(name)?.[1]
    if (id === undefined || (await services.views.repositories.get(id)) !== undefined) continue
    const repoId = Number(id)
    const repository = await repositories.load(services, repoId)
    if (repository.status !== 'deleted') continue
    await deleteRepository(gitDirOf(services, repoId))
    services.log.info({ repoId }, 'finished the deletion of a repository')
  }
}
