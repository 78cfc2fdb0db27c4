/**
 * Notices that the disk of the repositories or of the attached files is not there. It may be another one than that of the
 * log, and where none is mounted there is an empty directory. A server must not start on that: it would take all branches
 * for deleted, and what came in then would be hidden as soon as the disk is mounted.
 */
import { opendir } from 'node:fs/promises'
import { isShared } from '../config.ts'
import { HOOKS } from '../git/push-hook.ts'
import { OperatorError } from '../operator-error.ts'
import type { Services } from '../services.ts'

/** What starts make there, and file systems. */
const NOT_OURS: ReadonlySet<string> = new Set([HOOKS, 'incoming', 'lost+found'])
/** Few issues have files, and the repositories of some may be deleted: so many of them are looked at. */
const ISSUES_WITH_FILES = 100

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
  const refuseEmpty = async (directory: string, what: string) => {
    if (!(await isEmpty(directory))) return
    const problem = `DATA_DIR: ${directory} is empty, but the log has ${what}: mount its disk, or restore a backup`
    if (!isShared(config))
      throw new OperatorError(`${problem}; a file in it lets the server start without them`)
    log.error(problem)
  }
  if ((await views.repositories.find({}, { limit: 1 })).length > 0) await refuseEmpty(gitDir, 'repositories')
  const withFiles = await views.issueFiles.find({}, { limit: ISSUES_WITH_FILES })
  const repositories = await views.repositories.getMany(withFiles.map(({ repoId }) => `${repoId}`))
  if (repositories.length > 0) await refuseEmpty(attachments.directory, 'attached files')
}

async function isEmpty(directory: string): Promise<boolean> {
  for await (const { name } of await opendir(directory)) if (!NOT_OURS.has(name)) return false
  return true
}
