/**
 * Recovery: makes git and the log agree after a crash. It records pushes without an event, finishes merges without an
 * outcome, and removes files of deleted repositories.
 */
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import type { CommandContext } from '../commands/execute.ts'
import { load } from '../commands/execute.ts'
import { recordRefs } from '../commands/git/record-refs.ts'
import { finishMerge, mergeTurn } from '../commands/pull-requests/finish-merge.ts'
import { pullDecider } from '../commands/pull-requests/pull-request.ts'
import { repositoryDecider } from '../commands/repositories/repository.ts'
import { decode } from '../events/codec.ts'
import { LOG_START } from '../events/event-store.ts'
import { gitStream, pullStream, repositoryStream } from '../events/streams.ts'
import { RepositoryMissing } from '../git/errors.ts'
import { removeLeftovers } from '../git/leftovers.ts'
import { listRefs, type Ref } from '../git/refs.ts'
import { deleteRepository, sweepRepositories } from '../git/repository.ts'
import { gitDirOf, type Services } from '../services.ts'
import { inTurn } from '../turns.ts'

function recoveryContext(): CommandContext {
  const id = randomUUID()
  return { actor: null, at: new Date().toISOString(), correlationId: id, causationId: id, written: LOG_START }
}

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

/** The refs of a repository as git has them; none when it was deleted. */
async function refsOf(services: Services, repoId: number): Promise<Ref[]> {
  try {
    return await listRefs(gitDirOf(services, repoId))
  } catch (error) {
    if (error instanceof RepositoryMissing) return []
    throw error
  }
}

/** Records the refs that differ between git and the log. Resolves to their number. */
export async function reconcileRefs(services: Services, repoId: number): Promise<number> {
  const recorded = await recordedRefs(services, repoId)
  const actual = new Map(
    (await refsOf(services, repoId))
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
 * event could not be written (found while the server runs).
 */
export async function recoverPushes(services: Services): Promise<void> {
  const { pushJournal, log } = services
  for (const marker of await pushJournal.unfinished()) {
    const repoId = Number(marker.key)
    const dir = gitDirOf(services, repoId)
    await pushJournal.settle(marker, dir)
    const moved = await inTurn(dir, () => reconcileRefs(services, repoId))
    await pushJournal.finish(marker)
    log.info({ repoId, moved }, 'recorded a push that was cut off')
  }
}

/**
 * Finishes merges that were cut off. A merge that is still under way in this process ends first, in its turn.
 * `startedAt` (milliseconds since 1970): git's lock files from before this time are stale.
 */
export async function recoverMerges(services: Services, startedAt: number): Promise<void> {
  const { events, views, log } = services
  for (const { repoId, index } of await views.pulls.find({ merging: true })) {
    await inTurn(mergeTurn(repoId), async () => {
      const { state } = await load(events, pullStream(repoId, index), pullDecider)
      if (state.status !== 'open' || state.merging === null) return
      await removeLeftovers(gitDirOf(services, repoId), startedAt)
      const refusal = await finishMerge(services, recoveryContext(), state)
      log.info({ repoId, index, failure: refusal?.message }, 'finished a merge that was cut off')
    })
  }
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
    const { state } = await load(services.events, repositoryStream(repoId), repositoryDecider)
    if (state.status !== 'deleted') continue
    await deleteRepository(gitDirOf(services, repoId))
    services.log.info({ repoId }, 'finished the deletion of a repository')
  }
}
