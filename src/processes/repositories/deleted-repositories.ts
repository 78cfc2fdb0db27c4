/**
 * The process that cleans up after a deleted repository: files of attachments, then stars, watches, subscriptions and
 * deploy keys, and last its documents, which the other steps need.
 */
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import { removeDeployKey } from '../../commands/keys/change.ts'
import { removeOrphanedDocuments } from '../../commands/repositories/orphaned-documents.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'
import { filesOfRepository } from '../../projections/models/attachments/attached-files.fold.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'
import { accessCleanup } from './revoked-access.ts'

export function deletedRepositories(services: Services): ProcessManager {
  const { attachments, views, projector, config } = services
  const access = accessCleanup(services)

  return processManager('deleted_repositories', {
    async RepositoryDeleted(context, { data: { repoId } }) {
      const own = { ...context, actor: null }
      for await (const files of filesOfRepository(views, repoId)) {
        for (const { uuid } of files) await attachments.remove(uuid)
      }
      await access.checkTies(own, { repoId })
      await forEachSettled(await views.deployKeys.find({ repoId }), (key) =>
        removeDeployKey(services, own, key),
      )
      // Ending a subscription writes a document that must be removed too.
      if (!(await projector.waitFor(own.written, config.projectionWaitMs)))
        throw new StoreUnavailable('the read models lag: documents of a deleted repository are removed later')
      await removeOrphanedDocuments(services, own, repoId)
    },
  })
}
