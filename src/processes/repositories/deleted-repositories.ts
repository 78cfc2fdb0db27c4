/**
 * The process that ends what a deleted repository leaves behind: the files of its attachments, what people have made of it
 * (stars, watching, subscriptions, deploy keys), and its documents in the read models. These come last: they say what the
 * others are.
 */
import { eachOne } from '../../commands/execution/each-one.ts'
import { removeDeployKey } from '../../commands/keys/change.ts'
import { removeLeft } from '../../commands/repositories/left-documents.ts'
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
      await access.among(own, { repoId })
      await eachOne(await views.deployKeys.find({ repoId }), (key) => removeDeployKey(services, own, key))
      // What ends a subscription changes a document that is to go.
      if (!(await projector.waitFor(own.written, config.projectionWaitMs)))
        throw new StoreUnavailable('the read models lag: what a deleted repository left is removed later')
      await removeLeft(services, own, repoId)
    },
  })
}
