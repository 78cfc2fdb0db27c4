/** Gives the base repository the LFS objects of a merged pull request from a fork. */
import { shareLfsFiles } from '../../git/lfs/lfs-files.ts'
import { eachLfsPointer } from '../../git/lfs/lfs-pointers.ts'
import { lfsObjectId } from '../../projections/models/lfs/lfs-objects.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { recordedLfsObjects, recordLfsObjects } from './record-objects.ts'

/** Shares the objects that the merged commits point to. Idempotent. */
export async function mergeLfsObjects(
  services: Services,
  context: CommandContext,
  { repoId, head }: { repoId: number; head: { repoId: number } },
  commits: { from: string; to: string },
): Promise<void> {
  const { lfsObjects } = services.views
  // Skips git for the many repositories without objects.
  if ((await lfsObjects.findOne({ repoId: head.repoId })) === undefined) return
  const has = new Set(await recordedLfsObjects(services, repoId))
  await eachLfsPointer(gitDirOf(services, repoId), commits, async (pointers) => {
    const missing = pointers.filter(({ oid }) => !has.has(oid))
    const wanted = await lfsObjects.getMany(missing.map(({ oid }) => lfsObjectId(head.repoId, oid)))
    const shared = await shareLfsFiles(gitDirOf(services, head.repoId), gitDirOf(services, repoId), wanted)
    await recordLfsObjects(services, context, repoId, 'merge', shared)
    for (const { oid } of shared) has.add(oid)
  })
}
