/** Removes files of deleted attachments and files orphaned by a crash. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { repositoriesOfFiles } from '../../projections/models/attachments/attached-files.fold.ts'
import type { Services } from '../../services/services.ts'
import { flush, isMissing } from '../../storage/disk.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function attachmentRemoval({ attachments }: Pick<Services, 'attachments'>): ProcessManager {
  const removeAll = async (uuids: readonly string[]) => {
    for (const uuid of uuids) await attachments.remove(uuid)
  }
  return processManager('attachment_removal', {
    CommentsDeleted: (_, { data }) => removeAll(data.files),
    IssueDeleted: (_, { data }) => removeAll(data.files),
    AttachmentDeleted: (_, { data }) => attachments.remove(data.uuid),
    IssueFileDeleted: (_, { data }) => attachments.remove(data.uuid),
    ReleaseAssetDeleted: (_, { data }) => attachments.remove(data.uuid),
  })
}

/**
 * Removes orphaned files: a crash came before the event of an upload, or after the event of a deletion. Call it when
 * the read models are current. Removes nothing when a read model has stopped, or when the files belong to another log:
 * after a wrong setting, the log in use knows none of them.
 */
export async function removeOrphans(
  services: Pick<Services, 'attachments' | 'views' | 'events' | 'projector' | 'log'>,
): Promise<void> {
  const { attachments, views, projector, log } = services
  if (projector.status().some(({ stopped }) => stopped !== undefined)) {
    log.warn('a read model has stopped: files that no attachment has are not removed')
    return
  }
  if (!(await isOwnLog(services))) {
    log.warn(
      { directory: attachments.directory },
      'the files of attachments belong to another log: none was removed',
    )
    return
  }
  const removed = await attachments.removeUnknown(async (uuids) => {
    const known = await repositoriesOfFiles(views, uuids)
    const repoIds = [...new Set(known.values().map(String))]
    const there = new Set((await views.repositories.getMany(repoIds)).map(({ id }) => id))
    return new Set([...known].flatMap(([uuid, repoId]) => (there.has(repoId) ? [uuid] : [])))
  })
  if (removed > 0) log.info({ removed }, 'removed orphaned files of attachments')
}

/** Whether the files belong to the log in use. The first log that asks becomes their log. */
export async function isOwnLog({
  attachments,
  events,
}: Pick<Services, 'attachments' | 'events'>): Promise<boolean> {
  let first: string | undefined
  // Each log begins with the creation of the site admin, with the same id; the time tells the logs apart.
  for await (const { id, metadata } of events.readAll({ maxCount: 1 })) first = `${id} ${metadata.at}`
  if (first === undefined) return false
  const path = join(attachments.directory, 'log')
  try {
    const known = (await readFile(path, 'utf8')).trim()
    // A crash during the write leaves it empty.
    if (known !== '') return known === first
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  await writeFile(path, `${first}\n`, { flush: true })
  await flush(attachments.directory)
  return true
}
