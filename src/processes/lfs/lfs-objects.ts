/**
 * Gives repositories the LFS objects of their commits: a fork those of its parent (after a crash), and a base
 * repository those of a merged pull request from a fork.
 */
import { inheritLfsObjects } from '../../commands/lfs/inherit-objects.ts'
import { mergeLfsObjects } from '../../commands/lfs/merge-objects.ts'
import { RepositoryMissing } from '../../git/process/errors.ts'
import { pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function lfsObjects(services: Services): ProcessManager {
  const { views } = services

  /** Does the work unless one of the repositories is deleted before or meanwhile. */
  async function whileAllExist(ids: readonly number[], work: () => Promise<void>): Promise<void> {
    const there = await views.repositories.getMany([...new Set(ids)].map(String))
    if (there.length < new Set(ids).size) return
    await work().catch((error: unknown) => {
      if (!(error instanceof RepositoryMissing)) throw error
    })
  }

  return processManager('lfs_objects', {
    async RepositoryCreated(context, { data }) {
      const { repoId, parent } = data
      if (parent === undefined) return
      await whileAllExist([repoId, parent.repoId], () =>
        inheritLfsObjects(services, context, { from: parent.repoId, to: repoId }),
      )
    },
    async PullRequestMerged(context, { data }) {
      const { repoId, index } = data
      const pull = await views.pulls.get(pullId(repoId, index))
      if (pull === undefined || pull.head.repoId === repoId) return
      await whileAllExist([repoId, pull.head.repoId], () =>
        mergeLfsObjects(services, context, pull, { from: data.mergeBase ?? pull.mergeBase, to: data.head }),
      )
    },
  })
}
