/**
 * Notices that the disk of the repositories or of the attached files is not there. It may be another one than that of the
 * log, and where none is mounted there is an empty directory. A server must not start on that: it would take all branches
 * for deleted, and what came in then would be hidden as soon as the disk is mounted.
 */
import { opendir } from 'node:fs/promises'
import { isShared } from '../config/config.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { HOOKS } from '../git/push/push-hook.ts'
import type { Services } from '../services/services.ts'

/** What starts make there, and file systems. */
const NOT_OURS: ReadonlySet<string> = new Set([HOOKS, 'incoming', 'lost+found'])
/** The repositories of some files may be deleted: so many issues, comments and releases with files are looked at. */
const MOST_LOOKED_AT = 100
/** With one of these each uuid begins. */
const DIGITS = [...'0123456789abcdef']

/**
 * To be called when the read models stand at the beginning of this start, and before anything is recovered. When neither
 * the log nor the read models are in the data directory, it may be a new one: then the log says what is not there.
 *
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

/** Whether an issue, a comment or a release of a repository that is there has a file. */
async function hasFiles(views: Services['views']): Promise<boolean> {
  const options = { limit: MOST_LOOKED_AT }
  const isThere = async (found: readonly { repoId: number }[]) =>
    found.length > 0 && (await views.repositories.getMany(found.map(({ repoId }) => `${repoId}`))).length > 0
  if (await isThere(await views.issueFiles.find({}, options))) return true
  // Most comments and releases have no files, so they are found by the files' names.
  for (const digit of DIGITS) {
    const begins = { $words: [digit] }
    if (await isThere(await views.comments.find({ attachmentUuids: begins }, options))) return true
    if (await isThere(await views.releases.find({ assetUuids: begins }, options))) return true
  }
  return false
}

async function isEmpty(directory: string): Promise<boolean> {
  for await (const { name } of await opendir(directory)) if (!NOT_OURS.has(name)) return false
  return true
}
