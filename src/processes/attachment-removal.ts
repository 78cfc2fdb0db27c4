/** Removes the files of attachments that are no more, and what a crash left of uploads. */

import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { flush, isMissing } from '../disk.ts'
import type { CommentDocument } from '../projections/comments.ts'
import type { Services } from '../services.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

/** How many comments of a deleted repository are looked at together. */
const BATCH = 500

/** Follows deletions, of attachments, whole comments and whole repositories alike: their files go. */
export function attachmentRemoval(services: Pick<Services, 'attachments' | 'views'>): ProcessManager {
  const { attachments, views } = services

  async function* commentsOf(repoId: number): AsyncGenerator<CommentDocument> {
    let last = 0
    for (;;) {
      const found = await views.comments.find(
        { repoId, id: { $gt: last } },
        { sort: [['id', 1]], limit: BATCH },
      )
      yield* found
      if (found.length < BATCH) return
      last = found.at(-1)?.id ?? last
    }
  }

  return processManager('attachment_removal', {
    AttachmentDeleted: (_, { data }) => attachments.remove(data.uuid),
    async RepositoryDeleted(_, { data }) {
      for await (const { attachmentUuids } of commentsOf(data.repoId)) {
        for (const uuid of attachmentUuids) await attachments.remove(uuid)
      }
    },
  })
}

/**
 * Removes files that belong to no comment: of uploads that a crash cut off before their event, and of
 * deletions that it cut off behind theirs. To be called when the read models are current.
 *
 * The read models are believed only when all of them are whole, and only about files of their own log: behind
 * a wrong setting stands another log, that knows none of these files.
 */
export async function removeOrphans(
  services: Pick<Services, 'attachments' | 'views' | 'events' | 'projector' | 'log'>,
): Promise<void> {
  const { attachments, views, projector, log } = services
  if (projector.status().some(({ stopped }) => stopped !== undefined)) {
    log.warn('a read model has stopped: files of attachments that nobody knows are left alone')
    return
  }
  if (!(await isOwnLog(services))) {
    log.warn(
      { directory: attachments.directory },
      'the files of attachments belong to another log than the one in use and are left alone',
    )
    return
  }
  const removed = await attachments.removeUnknown(async (uuids) => {
    const comments = await views.comments.find({ attachmentUuids: { $in: uuids } })
    const repoIds = [...new Set(comments.map(({ repoId }) => `${repoId}`))]
    const there = new Set((await views.repositories.getMany(repoIds)).map(({ id }) => id))
    return new Set(
      comments.filter(({ repoId }) => there.has(repoId)).flatMap(({ attachmentUuids }) => attachmentUuids),
    )
  })
  if (removed > 0) log.info({ removed }, 'removed files of attachments that no comment has')
}

/** Whether the files were put there under the log in use; the first log that asks is their own. */
async function isOwnLog({ attachments, events }: Pick<Services, 'attachments' | 'events'>): Promise<boolean> {
  let first: string | undefined
  // Each log begins with the making of the admin, under the same id; when that was tells them apart.
  for await (const { id, metadata } of events.readAll({ maxCount: 1 })) first = `${id} ${metadata.at}`
  if (first === undefined) return false
  const path = join(attachments.directory, 'log')
  try {
    const known = (await readFile(path, 'utf8')).trim()
    // Empty: a crash came while it was written.
    if (known !== '') return known === first
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  const handle = await open(path, 'w')
  try {
    await handle.writeFile(`${first}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await flush(attachments.directory)
  return true
}
