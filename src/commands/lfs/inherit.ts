/** Large files that a repository gets from another one: a fork those of its parent. */
import type { LfsObject } from '../../events/lfs-events.ts'
import { shareLfsFiles } from '../../git/lfs-files.ts'
import { gitDirOf, type Services } from '../../services.ts'
import type { CommandContext } from '../execute.ts'
import { recordedLfsAdditions, recordedLfsObjects, recordLfsObjects } from './record.ts'

/** About this many objects are shared and recorded together. */
const BATCH = 500

/**
 * Gives a fork the objects that its parent had until `before` (ISO 8601), as the log has them: the read models may lag.
 * May be repeated: what the fork has is left out. Both must be there.
 */
export async function inheritLfsObjects(
  services: Services,
  context: CommandContext,
  { from, to, before }: { from: number; to: number; before: string },
): Promise<void> {
  async function share(objects: readonly LfsObject[]): Promise<void> {
    const shared = await shareLfsFiles(gitDirOf(services, from), gitDirOf(services, to), objects)
    await recordLfsObjects(services, context, to, 'fork', shared)
  }

  const has = new Set(await recordedLfsObjects(services, to))
  let wanted: LfsObject[] = []
  for await (const { objects, at } of recordedLfsAdditions(services, from)) {
    if (at > before) continue
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
