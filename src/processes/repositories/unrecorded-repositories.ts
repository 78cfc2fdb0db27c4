/** Removes repositories that a crash left before the log had them: their creation, or the making of a fork, was cut off. */
import { readdir } from 'node:fs/promises'
import { repositories } from '../../commands/execution/aggregates.ts'
import { recordedRefs } from '../../commands/git/recorded-refs.ts'
import { idsStream } from '../../events/streams.ts'
import { deleteAbandoned } from '../../git/repository/repository.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { isOwnLog } from '../attachments/attachment-removal.ts'

/**
 * Removes repositories whose id this log has given, and about which it has nothing else. They are so old that no request goes
 * on with them. Nothing is removed when the files belong to another log: after a wrong setting they may be in use there. A
 * repository stays when the log has refs of it: refs are recorded after the creation, so the log has lost that event.
 */
export async function removeUnrecorded(services: Services): Promise<void> {
  const { gitDir, views, log } = services
  let given: number | undefined
  for (const name of await readdir(gitDir)) {
    const id = /^(\d+)\.git$/.exec(name)?.[1]
    if (id === undefined || (await views.repositories.get(id)) !== undefined) continue
    const repoId = Number(id)
    if ((await repositories.load(services, repoId)).status !== 'none') continue
    if ((await recordedRefs(services, repoId)).revision !== 'no-stream') continue
    given ??= (await isOwnLog(services)) ? await lastGiven(services) : 0
    if (repoId > given || !(await deleteAbandoned(gitDirOf(services, repoId)))) continue
    log.info({ repoId }, 'removed a repository whose creation was cut off')
  }
}

/** The last id that a repository got; 0 when none has. */
async function lastGiven({ events }: Services): Promise<number> {
  const last = { direction: 'backwards', maxCount: 1 } as const
  for await (const { revision } of events.readStream(idsStream('repository'), last)) return revision + 1
  return 0
}
