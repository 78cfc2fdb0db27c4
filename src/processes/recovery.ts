/**
 * Recovery: makes git and the log agree after a crash. It records pushes without an event, finishes merges without an
 * outcome, and removes files of deleted repositories.
 */
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { pulls, repositories } from '../commands/aggregates.ts'
import { eachOne } from '../commands/each-one.ts'
import { newContext } from '../commands/execute.ts'
import { recordRefs } from '../commands/git/record-refs.ts'
import { finishMerge, mergeTurn } from '../commands/pull-requests/finish-merge.ts'
import { unlessDeleted } from '../commands/pull-requests/move-heads.ts'
import { decode } from '../events/codec.ts'
import { StoreUnavailable } from '../events/event-store.ts'
import { gitStream } from '../events/streams.ts'
import { removeLeftovers } from '../git/leftovers.ts'
import { listRefs } from '../git/refs.ts'
import { deleteRepository, sweepRepositories } from '../git/repository.ts'
import { gitDirOf, type Services } from '../services.ts'
import { inTurn } from '../turns.ts'

const recoveryContext = () => newContext(null, randomUUID())

/** The refs of a repository as the log has them. */
async function recordedRefs(services: Services, repoId: number): Promise<Map<string, string>> {
  const refs = new Map<string, string>()
  for await (const recorded of services.events.readStream(gitStream(repoId))) {
    const event = decode(recorded)
    if (event.type !== 'RefsUpdated') continue
    for (const { ref, to } of event.data.refs) {
      if (to === null) refs.delete(ref)
      else refs.set(ref, to)
    }
  }
  return refs
}

/** Records the refs that differ between git and the log. Resolves to their number. */
export async function reconcileRefs(services: Services, repoId: number): Promise<number> {
  const recorded = await recordedRefs(services, repoId)
  const refs = await listRefs(gitDirOf(services, repoId)).catch(unlessDeleted)
  const actual = new Map(
    (refs ?? [])
      .filter(({ ref }) => ref.startsWith('refs/heads/') || ref.startsWith('refs/tags/'))
      .map(({ ref, sha }) => [ref, sha]),
  )
  const names = new Set([...recorded.keys(), ...actual.keys()])
  const moved = [...names]
    .map((ref) => ({ ref, from: recorded.get(ref) ?? null, to: actual.get(ref) ?? null }))
    .filter(({ from, to }) => from !== to)
  await recordRefs(services, recoveryContext(), repoId, 'recovered', moved)
  return moved.length
}

/**
 * Records pushes without an event: an earlier process died during the push (found before the first request), or the
 * event could not be written (found while the server runs). A push that cannot be recorded is named in the log and in
 * `/healthz`, and is tried again next time. It does not stop the others, nor the start.
 */
export async function recoverPushes(services: Services): Promise<void> {
  const { pushJournal, log } = services
  for (const marker of await pushJournal.unfinished()) {
    const repoId = Number(marker.key)
    const dir = gitDirOf(services, repoId)
    try {
      await pushJournal.settle(marker, dir)
      const moved = await inTurn(dir, () => reconcileRefs(services, repoId))
      await pushJournal.finish(marker)
      log.info({ repoId, moved }, 'recorded a push that was cut off')
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      // The same failure is said once, not every few seconds.
      if (pushJournal.failed(marker, reason))
        log.error(
          { err: error, repoId },
          'a push that was cut off cannot be recorded; it will be tried again',
        )
    }
  }
}

/**
 * Finishes merges that were cut off. A merge that is still under way in this process ends first, in its turn. One that
 * cannot be finished is named in the log, and is tried again next time. It does not stop the others.
 *
 * `startedAt` (milliseconds since 1970): git's lock files from before this time are stale.
 */
export async function recoverMerges(services: Services, startedAt: number): Promise<void> {
  const { views, log } = services
  await eachOne(await views.pulls.find({ merging: true }), async ({ repoId, index }) => {
    await inTurn(mergeTurn(repoId), async () => {
      const state = await pulls.load(services, { repoId, index })
      if (state.status !== 'open' || state.merging === null) return
      await removeLeftovers(gitDirOf(services, repoId), startedAt)
      const refusal = await finishMerge(services, recoveryContext(), state)
      log.info({ repoId, index, failure: refusal?.message }, 'finished a merge that was cut off')
    }).catch((error: unknown) => {
      // Nothing can be done without the log. Then all is tried again.
      if (error instanceof StoreUnavailable) throw error
      log.error({ err: error, repoId, index }, 'a merge that was cut off cannot be finished')
    })
  })
}

/**
 * Finishes deletions of repositories that a crash cut off. Only repositories that the log calls deleted are removed:
 * after a wrong setting, an unknown directory may hold somebody's code.
 */
export async function finishDeletions(services: Services): Promise<void> {
  await sweepRepositories(services.gitDir)
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
