/** Large files that a repository gets from another one: a fork those of its parent. */
import { shareLfsFiles } from '../../git/lfs-files.ts'
import type { LfsObjectDocument } from '../../projections/lfs-objects.ts'
import { gitDirOf, type Services } from '../../services.ts'
import type { CommandContext } from '../execute.ts'
import { recordedLfsObjects, recordLfsObjects } from './record.ts'

/** This many objects are read, shared and recorded together. */
const BATCH = 500

/**
 * Gives a fork the objects that its parent had until `before` (ISO 8601). May be repeated: what the fork has is left
 * out. Both must be there.
 */
export async function inheritLfsObjects(
  services: Services,
  context: CommandContext,
  { from, to, before }: { from: number; to: number; before: string },
): Promise<void> {
  let has: ReadonlySet<string> | undefined
  for await (const objects of lfsObjectsOf(services, from)) {
    has ??= await recordedLfsObjects(services, to)
    const wanted = objects.filter(({ oid, addedAt }) => addedAt <= before && !has?.has(oid))
    const shared = await shareLfsFiles(gitDirOf(services, from), gitDirOf(services, to), wanted)
    await recordLfsObjects(services, context, to, 'fork', shared)
  }
}

/** All objects of a repository, some at a time. */
async function* lfsObjectsOf(
  { views }: Pick<Services, 'views'>,
  repoId: number,
): AsyncGenerator<LfsObjectDocument[]> {
  let last = ''
  for (;;) {
    const found = await views.lfsObjects.find(
      { repoId, oid: { $gt: last } },
      { sort: [['oid', 1]], limit: BATCH },
    )
    if (found.length > 0) yield found
    if (found.length < BATCH) return
    last = found.at(-1)?.oid ?? last
  }
}
