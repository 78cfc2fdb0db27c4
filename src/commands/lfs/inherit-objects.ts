/** Gives a fork the LFS objects of its parent. */

import type { LfsObject } from '../../events/catalog/lfs.ts'
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import { repositoryStream } from '../../events/streams.ts'
import { shareLfsFiles } from '../../git/lfs/lfs-files.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { recordedLfsAdditions, recordedLfsObjects, recordLfsObjects } from './record-objects.ts'

/** Number of objects that are shared and recorded together, approximately. */
const BATCH = 500

/**
 * Gives a fork the objects that its parent had at its creation, in the order of the log: read models may lag, and
 * clocks differ. Idempotent. Both repositories must exist.
 */
export async function inheritLfsObjects(
  services: Services,
  context: CommandContext,
  { from, to }: { from: number; to: number },
): Promise<void> {
  async function share(objects: readonly LfsObject[]): Promise<void> {
    const shared = await shareLfsFiles(gitDirOf(services, from), gitDirOf(services, to), objects)
    await recordLfsObjects(services, context, to, 'fork', shared)
  }

  const has = new Set(await recordedLfsObjects(services, to))
  const made = await beginningOf(services, to)
  let wanted: LfsObject[] = []
  for await (const { objects, position } of recordedLfsAdditions(services, from)) {
    if (position > made) break
    for (const object of objects) {
      if (!has.has(object.oid)) wanted.push(object)
      has.add(object.oid)
    }
    if (wanted.length < BATCH) continue
    await share(wanted)
    wanted = []
  }
  await share(wanted)
}

/** Returns the log position of the repository's creation. */
async function beginningOf({ events }: Services, repoId: number): Promise<Position> {
  for await (const { position } of events.readStream(repositoryStream(repoId), { maxCount: 1 }))
    return position
  return LOG_START
}
