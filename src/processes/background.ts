/** The background work of a server: the processes, and the workers of four of them. */
import type { Services } from '../services/services.ts'
import { attachmentRemoval } from './attachments/attachment-removal.ts'
import { deletedIssues } from './issues/deleted-issues.ts'
import { mentions } from './issues/mentions.ts'
import { references } from './issues/references.ts'
import { lfsObjects } from './lfs/lfs-objects.ts'
import { createCheckpointSigner } from './log-checkpoints.ts'
import type { ProcessManager } from './process-manager.ts'
import { createProcessRunner } from './process-runner.ts'
import { headBranches } from './pull-requests/head-branches.ts'
import { createLateMerges } from './pull-requests/late-merges.ts'
import { pullHeads } from './pull-requests/pull-heads.ts'
import { createScheduledMerges } from './pull-requests/scheduled-merges.ts'
import { releasedTags } from './releases/released-tags.ts'
import { defaultBranches } from './repositories/default-branches.ts'
import { deletedRepositories } from './repositories/deleted-repositories.ts'
import { createMaintenance } from './repositories/maintenance.ts'
import { ownerVisibility } from './repositories/owner-visibility.ts'
import { revokedAccess } from './repositories/revoked-access.ts'
import { transfers } from './repositories/transfers.ts'
import { deletedUsers } from './users/deleted-users.ts'
import { createWebhooks } from './webhooks/webhooks.ts'

/** Creates the background work, which begins at `start`. `observed` wraps each process; `signal` ends the workers. */
export function createBackground(
  services: Services,
  signal: AbortSignal,
  observed: (manager: ProcessManager) => ProcessManager,
) {
  const { log, events, readStore, projector, nodes } = services
  const maintenance = createMaintenance(services, signal)
  const checkpointSigner = createCheckpointSigner(services, signal)
  const webhooks = createWebhooks(services, signal)
  const lateMerges = createLateMerges(services, signal)
  const scheduledMerges = createScheduledMerges(services, signal)
  const runnerOf = (manager: ProcessManager) =>
    createProcessRunner(log, events, readStore, projector, observed(manager), nodes)
  const webhookRunner = runnerOf(webhooks.manager)
  const pullRunner = runnerOf(pullHeads(services, lateMerges.check))
  const scheduledRunner = runnerOf(scheduledMerges.manager)
  const processes = [
    pullRunner,
    scheduledRunner,
    ...[
      headBranches(services),
      attachmentRemoval(services),
      deletedRepositories(services),
      deletedIssues(services),
      ownerVisibility(services),
      deletedUsers(services),
      releasedTags(services),
      defaultBranches(services),
      revokedAccess(services),
      transfers(services),
      mentions(services),
      references(services),
      maintenance.manager,
      lfsObjects(services),
    ].map(runnerOf),
    webhookRunner,
  ]

  return {
    processes,
    /** Call it after the recovery. */
    async start(): Promise<void> {
      await lateMerges.prepare()
      // Before its process, which asks it for its lease.
      webhooks.start(webhookRunner.lease)
      for (const runner of processes) await runner.start()
      maintenance.start()
      checkpointSigner.start()
      lateMerges.start(pullRunner.lease)
      scheduledMerges.start(scheduledRunner.lease)
    },
    /** Ends the processes. Resolves when the workers have ended too. Call it after the signal was aborted. */
    async stop(): Promise<void> {
      await Promise.all([
        maintenance.stopped(),
        checkpointSigner.stopped(),
        webhooks.stopped(),
        lateMerges.stopped(),
        scheduledMerges.stopped(),
        ...processes.map((runner) => runner.stop()),
      ])
    },
  }
}
