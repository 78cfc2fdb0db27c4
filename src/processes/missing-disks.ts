/**
 * Detects an unmounted disk of repositories or attached files. Without the mount, its directory is empty: a server that
 * started on it would record all branches as deleted, and hide new files under the later mount.
 */
import { opendir } from 'node:fs/promises'
import { isShared } from '../config/config.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { HOOKS } from '../git/push/push-hook.ts'
import type { Services } from '../services/services.ts'

/** Names that starts and file systems create. */
const IGNORED: ReadonlySet<string> = new Set([HOOKS, 'incoming', 'lost+found'])
/**
 * Maximum number of issues, comments and releases with files that are checked. The repositories of some may be deleted.
 */
const MAX_CHECKED = 100
/** Possible first digits of a uuid. */
const DIGITS = [...'0123456789abcdef']

/**
 * Call it when the read models have reached the log's end of this start, and before the recovery. When neither the log
 * nor the read models are in the data directory, that directory may be new: then the log tells what is missing.
 * @throws OperatorError
 */
export async function refuseMissingDisks({
  config,
  gitDir,
  attachments,
  views,
  log,
}: Pick<Services, 'config' | 'gitDir' | 'attachments' | 'views' | 'log'>): Promise<void> {
  const refuse = (directory: string, what: string) => {
    const problem = `DATA_DIR: ${directory} is empty, but the log has ${what}: mount its disk, or restore a backup`
    if (!isShared(config))
      throw new OperatorError(`${problem}; a file in it lets the server start without them`)
    log.error(problem)
  }
  if ((await isEmpty(gitDir)) && (await views.repositories.find({}, { limit: 1 })).length > 0)
    refuse(gitDir, 'repositories')
  if ((await isEmpty(attachments.directory)) && (await hasFiles(views)))
    refuse(attachments.directory, 'attached files')
}

/** Whether an issue, comment or release of an existing repository has a file. */
async function hasFiles(views: Services['views']): Promise<boolean> {
  const options = { limit: MAX_CHECKED }
  const isThere = async (found: readonly { repoId: number }[]) =>
    found.length > 0 && (await views.repositories.getMany(found.map(({ repoId }) => `${repoId}`))).length > 0
  if (await isThere(await views.issueFiles.find({}, options))) return true
  // Most comments and releases have no files, so the search is by file name.
  for (const digit of DIGITS) {
    const begins = { $words: [digit] }
    if (await isThere(await views.comments.find({ attachmentUuids: begins }, options))) return true
    if (await isThere(await views.releases.find({ assetUuids: begins }, options))) return true
  }
  return false
}

async function isEmpty(directory: string): Promise<boolean> {
  for await (const { name } of await opendir(directory)) if (!IGNORED.has(name)) return false
  return true
}
