/**
 * Fills a data directory from a backup. The files are first copied to `DATA_DIR/restoring`. When all of them
 * are checked and on disk, they are moved to their places. (A temporary directory beside DATA_DIR does not
 * work: DATA_DIR is often a mount point.) No server starts while `restoring` exists.
 */
import { mkdir, readdir, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { createDataDir } from '../../config/create-directories.ts'
import { NEW_CONFIG } from '../../git/repository/repository.ts'
import { OWN_FORMAT, writeDataFormat } from '../../storage/data-format.ts'
import { lockDataDir, STOP_THE_SERVER } from '../../storage/data-lock.ts'
import { exists, flush, namesIn, unlessMissing } from '../../storage/disk.ts'
import { RESTORING } from '../../storage/unfinished-restore.ts'
import { listedFiles } from './checksums.ts'
import type { Progress } from './context.ts'
import { createFileCopier, flushTree, sumOf } from './file-copier.ts'
import { BackupProblem, COPY_FORMAT, DATA, type Manifest, readManifest } from './manifest.ts'
import { beginReplacement, finishReplacement, replacementIn } from './replacement.ts'
import { REPOSITORY_DIRECTORIES } from './repository-copy.ts'
import { isStartupFile, removeStartupFiles } from './startup-files.ts'

export interface RestoreOptions {
  /** The directory of the backup. */
  directory: string
  /** A new or empty directory, or one to be replaced. */
  dataDir: string
  /** Whether to replace existing data, which is kept in `DATA_DIR/replaced-…`. Default: false. */
  replace?: boolean
  onProgress?: (progress: Progress) => void
}

export type RestoreResult = Omit<Manifest, 'format' | 'sums'> & {
  dataDir: string
  /** Directory of the replaced data. */
  replaced?: string
}

/**
 * Restores a backup. Compares every file with its checksum while copying it. After a failure the data
 * directory is as it was before.
 *
 * @throws BackupProblem, DataDirInUse, and errors of the file system
 */
export async function restore({
  directory,
  dataDir,
  replace = false,
  onProgress = () => {},
}: RestoreOptions): Promise<RestoreResult> {
  const from = resolve(directory)
  const { format, sums, ...manifest } = await readManifest(from)
  if (format !== COPY_FORMAT) throw new BackupProblem(`${from} is an export: "mergelog import" is for it`)
  const isCutOff = (await replacementIn(dataDir)) !== undefined
  if (!replace && !isCutOff) await requireEmpty(dataDir)
  await createDataDir(dataDir)
  const unlock = lockDataDir(dataDir, 'alone', STOP_THE_SERVER)
  try {
    const begun = await replacementIn(dataDir)
    if (begun !== undefined) {
      const replaced = await finishReplacement(dataDir, begun)
      if (begun.backup === sums) return { ...manifest, dataDir, replaced }
      throw new BackupProblem(
        `DATA_DIR: the restore of another backup into ${dataDir} was cut off and is now finished; run this one again to replace it`,
      )
    }
    // Check again under the lock: a server may have started meanwhile.
    if (!replace) await requireEmpty(dataDir)
    if (!replace) await removeStartupFiles(dataDir)
    const draft = join(dataDir, RESTORING)
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft)
    await flush(dataDir)
    try {
      await copyFiles(from, draft, manifest.files, onProgress)
      await writeDataFormat(draft, { ...OWN_FORMAT, format: manifest.dataFormat })
      if (replace) await beginReplacement(dataDir, sums)
    } catch (error) {
      await rm(draft, { recursive: true, force: true }).catch(() => undefined)
      throw error
    }
    const replacement = await replacementIn(dataDir)
    if (replacement !== undefined) {
      return { ...manifest, dataDir, replaced: await finishReplacement(dataDir, replacement) }
    }
    for (const name of await readdir(draft)) await rename(join(draft, name), join(dataDir, name))
    await flush(dataDir)
    await rmdir(draft)
    await flush(dataDir)
    return { ...manifest, dataDir }
  } finally {
    unlock()
  }
}

/**
 * Names that may be in an "empty" data directory: the lock of a server or restore, and a file of the file system.
 */
const IGNORED = /^(?:lock\.db.*|lost\+found)$/

/** @throws BackupProblem when a data directory has anything else */
export async function requireEmpty(dataDir: string): Promise<void> {
  const others: string[] = []
  for (const name of await namesIn(dataDir)) {
    if (IGNORED.test(name) || name === RESTORING) continue
    if (await isStartupFile(dataDir, name)) continue
    others.push(name)
  }
  if (others.length === 0) return
  throw new BackupProblem(
    (await exists(join(dataDir, RESTORING)))
      ? `DATA_DIR: an earlier restore into ${dataDir} was cut off; empty the directory first`
      : `DATA_DIR: ${dataDir} is not empty (it has ${others.sort()[0]}); an empty directory is needed`,
  )
}

/**
 * Copies the files of the backup to `draft`, except those that match `isOnlyChecked`. Each repository gets the
 * configuration of a new one. Resolves when the copies are on disk.
 */
export async function copyFiles(
  from: string,
  draft: string,
  total: number,
  onProgress: (progress: Progress) => void,
  isOnlyChecked: (path: string) => boolean = () => false,
): Promise<void> {
  const copy = createFileCopier()
  let done = 0
  await forEachConcurrently(listedFiles(from), async ({ path, sha256 }) => {
    const source = join(from, DATA, path)
    // Reading a pipe, for example, would never end.
    const isFile = (await unlessMissing(stat(source)))?.isFile() ?? true
    if (!isFile) throw new BackupProblem(`${source} is not a file`)
    const copied = isOnlyChecked(path) ? await sumIfThere(source) : await copy(source, join(draft, path))
    if (copied === undefined) throw new BackupProblem(`${source} is missing`)
    if (copied.sha256 !== sha256) throw new BackupProblem(`${source} is damaged: its SHA-256 differs`)
    done += 1
    onProgress({ step: 'files', done, total })
  })
  if (done !== total) throw new BackupProblem(`the backup in ${from} has ${done} files instead of ${total}`)
  for (const name of await namesIn(join(draft, 'git'))) {
    const repository = join(draft, 'git', name)
    // The backup lists no empty directories, but git needs some.
    for (const needed of REPOSITORY_DIRECTORIES) await mkdir(join(repository, needed), { recursive: true })
    // The backup's own configuration can name programs that git runs, and the backup's checksums do not prove its
    // author.
    await writeFile(join(repository, 'config'), NEW_CONFIG)
  }
  await flushTree(draft)
}

const sumIfThere = async (path: string) => ((await exists(path)) ? sumOf(path) : undefined)
