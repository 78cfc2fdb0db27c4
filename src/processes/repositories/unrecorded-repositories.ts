/** Removes repositories that a crash left on disk before their creation or fork was recorded. */
import { readdir } from 'node:fs/promises'
import { repositories } from '../../commands/execution/aggregates.ts'
import { recordedRefs } from '../../commands/git/recorded-refs.ts'
import { idsStream } from '../../events/streams.ts'
import { deleteAbandoned } from '../../git/repository/repository.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { isOwnLog } from '../attachments/attachment-removal.ts'

/**
 * Removes repositories whose id this log has issued but which have no other events. They are too old for a running
 * request. Removes nothing when the files belong to another log, which may be in use after a wrong setting. A
 * repository with refs in the log stays: its creation was recorded earlier and is lost.
 */
export async function removeUnrecorded(services: Services): Promise<void> {
  const { gitDir, views, log } = services
  let lastId: number | undefined
  for (const name of await readdir(gitDir)) {
    const id = /^(\d+)\.git$/.exec(name)?.[1]
    if (id === undefined || (await views.repositories.get(id)) !== undefined) continue
    const repoId = Number(id)
    if ((await repositories.load(services, repoId)).status !== 'none') continue
    if ((await recordedRefs(services, repoId)).revision !== 'no-stream') continue
    lastId ??= (await isOwnLog(services)) ? await lastIssuedId(services) : 0
    if (repoId > lastId || !(await deleteAbandoned(gitDirOf(services, repoId)))) continue
    log.info({ repoId }, 'removed a repository whose creation was interrupted')
  }
}

/** Returns the last issued repository id; 0 without one. */
async function lastIssuedId({ events }: Services): Promise<number> {
  const last = { direction: 'backwards', maxCount: 1 } as const
  for await (const { revision } of events.readStream(idsStream('repository'), last)) return revision + 1
  return 0
}
