/**
 * A consistent backup of an installation, with or without running servers. Its state is that of the last event in the
 * copied log, at position P. The log refers to files outside of it. The steps are:
 *
 * 1. Copy the read models first, so that they are not ahead of P. The next start brings them up to date. 2. Copy
 * attached files and git objects for the first time, before something deletes them. 3. Copy the log. 4. Copy the
 * secrets. They are written before their events. So a secret that the copied log names can be missing only when it was
 * replaced or deleted after P. Then copy the log again, as in step 5. 5. Copy the attached files and git objects that
 * are new. Each was written before its event. So a file that the copied log names can be missing only when it was
 * deleted after P. Then copy the log again, which now has the deletion, and repeat steps 4 to 6. 6. Write the refs as
 * the log at P has them, not as git has them now. When the log has only the start of a merge, the recovery at the next
 * start finishes it, as after a crash at P.
 *
 * A backup does not contain files that are being uploaded, the lock, and the directory `pushes`. `pushes` lists
 * repositories whose git may be ahead of the log; in the copy, git has the refs of the log.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { GitUnavailable } from '../../git/process/errors.ts'
import { dataFormatOf, OWN_FORMAT, refuseNewerData } from '../../storage/data-format.ts'
import { exists, flush, hasCode } from '../../storage/disk.ts'
import { refuseUnfinishedRestore } from '../../storage/unfinished-restore.ts'
import { openDraft } from './checksums.ts'
import type { BackupContext, Progress, StoreCopies } from './context.ts'
import {
  addRemainingFiles,
  copyAttachments,
  copyRepositories,
  finishRepositories,
  isNamedBy,
  missingAttachments,
  removeUnnamed,
} from './data-files.ts'
import { databaseCopies } from './database-copies.ts'
import { createFileCopier, flushTree, sumOf } from './file-copier.ts'
import type { LogReferences, NamedRepository } from './log-references.ts'
import { BackupProblem, DATA, type Manifest, SUMS, writeManifest } from './manifest.ts'
import { openPreviousBackup, type PreviousBackup } from './previous-backup.ts'
import { checkedTarget, isLock, lockPartial } from './target.ts'

export interface BackupOptions {
  dataDir: string
  /** The directory of the backup. It must be new or empty. */
  directory: string
  onProgress?: (progress: Progress) => void
  /** For a backup of a series: see `series.ts`. */
  series?: BackupInSeries
}

export interface BackupInSeries {
  /** Directory of the previous backup, whose files may be linked; undefined without one. */
  earlier: string | undefined
  /** Which sixteenth of the linked files is read again. */
  reread: number
}

export type BackupResult = Omit<Manifest, 'format' | 'sums'> & {
  directory: string
  /** Damaged files of the previous backup, which were copied again. */
  damaged: string[]
}

/** Maximum number of copies of the log because files that it names were deleted meanwhile. */
const ROUNDS = 10

/**
 * Creates a backup of `dataDir` in `directory`. The directory gets its final name when the whole backup is on disk. A
 * backup never blocks a server's writes.
 *
 * Files that the log names and the data directory lacks (deleted by hand) are listed in `missing` of the result.
 *
 * @throws BackupProblem, DataDirInUse (half restored), BrokenFile, UnreadableEvent, and errors of the file system
 */
export async function backup(options: BackupOptions): Promise<BackupResult> {
  const { dataDir } = options
  await refuseUnfinishedRestore(dataDir)
  await refuseNewerData(dataDir)
  if (!(await exists(join(dataDir, 'events.db')))) {
    throw new BackupProblem(`DATA_DIR: there is no log in ${dataDir}`)
  }
  return backupWith(databaseCopies, options)
}

/** Creates a backup with the given copies of the stores. */
export async function backupWith(
  stores: StoreCopies,
  { dataDir, directory, onProgress = () => {}, series }: BackupOptions,
): Promise<BackupResult> {
  const target = await checkedTarget(directory, dataDir)
  const partial = `${target}.partial`
  const release = await lockPartial(partial, target)
  try {
    const manifest = await fill(stores, dataDir, partial, onProgress, series)
    // Fails when files were put into the target meanwhile.
    await rename(partial, target)
    await flush(dirname(target))
    // Release the lock only now: otherwise another backup could have started in the same directory.
    release()
    for (const name of await readdir(target)) if (isLock(name)) await rm(join(target, name), { force: true })
    return { ...manifest, directory: target }
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => undefined)
    if (error instanceof GitUnavailable) throw new BackupProblem(error.message, { cause: error })
    throw hasCode(error, 'ENOTEMPTY') || hasCode(error, 'EEXIST')
      ? new BackupProblem(`${target} is no longer empty`, { cause: error })
      : error
  } finally {
    release()
  }
}

async function fill(
  stores: StoreCopies,
  dataDir: string,
  partial: string,
  onProgress: BackupContext['onProgress'],
  series: BackupInSeries | undefined,
): Promise<Omit<BackupResult, 'directory'>> {
  const data = join(partial, DATA)
  await mkdir(data)
  const draft = await openDraft(partial)
  let earlier: PreviousBackup | undefined
  try {
    if (series?.earlier !== undefined)
      earlier = await openPreviousBackup(series.earlier, partial, series.reread)
    const context: BackupContext = {
      dataDir,
      data,
      draft,
      copy: createFileCopier({
        keepsTimes: true,
        before: async (original, to) => await earlier?.linkTo(relative(data, to), original, to),
      }),
      onProgress,
      checked: new Map(),
    }
    await stores.copyBefore(context)
    await copyAttachments(context, 'files of comments, first pass')
    await copyRepositories(context, 'repositories, first pass')
    const { named, missing, createdAt } = await copyUntilComplete(stores, context)
    const isNamed = isNamedBy(named)
    await removeUnnamed(context, isNamed)
    await addRemainingFiles(context, isNamed, stores.files)
    const { files, bytes, ...linked } = await draft.finish(isNamed)
    await earlier?.close()
    onProgress({ step: 'flushing', done: 0, total: 0 })
    await flushTree(partial)
    const repositories = [...named.repositories.values()]
    const count = (of: (repository: NamedRepository) => { size: number }) =>
      repositories.reduce((sum, repository) => sum + of(repository).size, 0)
    const manifest = {
      createdAt,
      position: named.position,
      events: named.events,
      repositories: repositories.length,
      refs: count(({ refs }) => refs),
      attachments: count(({ attachments }) => attachments),
      files,
      bytes,
      missing,
      program: OWN_FORMAT.version,
      dataFormat: (await dataFormatOf(dataDir))?.format ?? OWN_FORMAT.format,
      ...(series && { series: { ...linked, reread: series.reread } }),
    }
    const { sha256: sums } = await sumOf(join(partial, SUMS))
    await writeManifest(partial, { format: stores.format, ...manifest, sums })
    await flush(partial)
    return { ...manifest, damaged: earlier?.damaged ?? [] }
  } finally {
    await earlier?.close()
    await draft.close()
  }
}

/**
 * Copies the log and the files and secrets that it names until deletions, edits and erasures no longer interfere. A
 * file that is missing twice in a row is missing from the installation itself.
 */
async function copyUntilComplete(
  stores: StoreCopies,
  context: BackupContext,
): Promise<{ named: LogReferences; missing: string[]; createdAt: string }> {
  let missingBefore = new Set<string>()
  for (let round = 0; round < ROUNDS; round++) {
    const createdAt = new Date().toISOString()
    const named = await stores.copyLog(context)
    const missingSecrets = await stores.copySecrets(context, named)
    if (await stores.erasedSince(context, named)) continue
    await copyAttachments(context, 'files of comments')
    const missing = [
      ...(await missingAttachments(context, named)),
      ...(await finishRepositories(context, named.repositories)),
    ]
    const all = [...missing, ...missingSecrets]
    if (all.every((one) => missingBefore.has(one))) return { named, missing, createdAt }
    missingBefore = new Set(all)
  }
  throw new BackupProblem('files, texts or secrets were deleted too fast for a consistent backup; try again')
}
