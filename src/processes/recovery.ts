/**
 * What a start does about what a crash left between git and the log: pushes whose refs no event tells of,
 * merges without an outcome, deletions that left their files.
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
import { listRefs, type Ref } from '../git/refs.ts'
import { deleteRepository, sweepRepositories } from '../git/repository.ts'
import { removeLeftovers } from '../git/stale-locks.ts'
import { gitDirOf, type Services } from '../services.ts'
import { inTurn } from '../turns.ts'

function recoveryContext(): CommandContext {
  const id = randomUUID()
  return { actor: null, at: new Date().toISOString(), correlationId: id, causationId: id, written: LOG_START }
}

/** Refs of a repository as its log has them. */
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

/** Refs of a repository as git has them; none when it was deleted. */
async function refsOf(services: Services, repoId: number): Promise<Ref[]> {
  try {
    return await listRefs(gitDirOf(services, repoId))
  } catch (error) {
    if (error instanceof RepositoryMissing) return []
    throw error
  }
}

/** Records what git has and the log has not. Resolves to the number of refs that differed. */
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
 * Records refs that moved without an event: of pushes that were under way when an earlier process died
 * (before the first request), or whose event could not be written (while the server runs).
 */
export async function recoverPushes(services: Services): Promise<void> {
  const { pushJournal, log } = services
  for (const marker of await pushJournal.unfinished()) {
    const repoId = Number(marker.key)
    const dir = gitDirOf(services, repoId)
    await pushJournal.settle(marker, dir)
    const moved = await inTurn(dir, () => reconcileRefs(services, repoId))
    await pushJournal.finish(marker)
    log.info({ repoId, moved }, 'a push that was cut off is recorded')
  }
}

/**
 * Gives merges that were cut off their outcome. One that is still under way here has its turn first.
 * `startedAt` (milliseconds since 1970): git's locks from before belong to nobody.
 */
export async function recoverMerges(services: Services, startedAt: number): Promise<void> {
  const { events, views, log } = services
  for (const { repoId, index } of await views.pulls.find({ merging: true })) {
    await inTurn(mergeTurn(repoId), async () => {
      const { state } = await load(events, pullStream(repoId, index), pullDecider)
      if (state.status !== 'open' || state.merging === null) return
      await removeLeftovers(gitDirOf(services, repoId), startedAt)
      const refusal = await finishMerge(services, recoveryContext(), state)
      log.info({ repoId, index, failure: refusal?.message }, 'a merge that was cut off has its outcome')
    })
  }
}

/**
 * Finishes deletions that a crash cut short. Only what the log says was deleted is removed: a directory that
 * no repository is known for may be somebody's code behind a wrong setting.
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
