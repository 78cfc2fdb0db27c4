/**
 * Fills a data directory from a backup. The files are first copied to `DATA_DIR/restoring`. When all of them
 * are checked and on disk, they are moved to their places. (A temporary directory beside DATA_DIR does not
 * work: DATA_DIR is often a mount point.) No server starts while `restoring` exists.
 */
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { lockDataDir } from '../data-lock.ts'
import { exists, flush, namesIn } from '../disk.ts'
import type { Progress } from './context.ts'
import { createFileCopier, flushTree, forEachConcurrently } from './file-copier.ts'
import { RESTORING } from './half-restored.ts'
import { BackupProblem, DATA, type Manifest, readManifest } from './manifest.ts'
import { REPOSITORY_DIRECTORIES } from './repository-copy.ts'
import { listedFiles } from './sums.ts'

export interface RestoreOptions {
  /** The directory of the backup. */
  directory: string
  /** A new or empty directory. */
  dataDir: string
  onProgress?: (progress: Progress) => void
}

export type RestoreResult = Omit<Manifest, 'format' | 'sums'> & { dataDir: string }

/**
 * Restores a backup. Compares every file with its checksum while copying it. After a failure the data
 * directory is as it was before.
 *
 * @throws BackupProblem, DataDirInUse, and errors of the file system
 */
export async function restore({
  directory,
  dataDir,
  onProgress = () => {},
}: RestoreOptions): Promise<RestoreResult> {
  const from = resolve(directory)
  const { format: _format, sums: _sums, ...manifest } = await readManifest(from)
  await requireEmpty(dataDir)
  await mkdir(dataDir, { recursive: true })
  const unlock = lockDataDir(dataDir)
  try {
    // Check again under the lock: a server may have started in between.
    await requireEmpty(dataDir)
    const draft = join(dataDir, RESTORING)
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft)
    await flush(dataDir)
    try {
      await copyFiles(from, draft, manifest.files, onProgress)
    } catch (error) {
      await rm(draft, { recursive: true, force: true }).catch(() => undefined)
      throw error
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
 * Names that may be in an "empty" directory: the lock of a server or restore, and a file of the file system.
 */
const IGNORED = /^(?:lock\.db.*|lost\+found)$/

async function requireEmpty(dataDir: string): Promise<void> {
  const others: string[] = []
  for (const name of await namesIn(dataDir)) {
    if (IGNORED.test(name) || name === RESTORING) continue
    if (name === 'git' && (await namesIn(join(dataDir, name))).length === 0) continue
    others.push(name)
  }
  if (others.length === 0) return
  throw new BackupProblem(
    (await exists(join(dataDir, RESTORING)))
      ? `DATA_DIR: an earlier restore into ${dataDir} was cut off; empty the directory first`
      : `DATA_DIR: ${dataDir} is not empty (it has ${others.sort()[0]}); a restore needs an empty directory`,
  )
}

/** Copies all files of the backup to `draft`. Resolves when they are on disk. */
async function copyFiles(
  from: string,
  draft: string,
  total: number,
  onProgress: (progress: Progress) => void,
): Promise<void> {
  const copy = createFileCopier()
  let done = 0
  await forEachConcurrently(listedFiles(from), async ({ path, sha256 }) => {
    const source = join(from, DATA, path)
    const copied = await copy(source, join(draft, path))
    if (copied === undefined) throw new BackupProblem(`${source} is missing`)
    if (copied.sha256 !== sha256) throw new BackupProblem(`${source} is damaged: its SHA-256 differs`)
    done += 1
    onProgress({ step: 'files', done, total })
  })
  if (done !== total) throw new BackupProblem(`the backup in ${from} has ${done} files instead of ${total}`)
  // The backup lists no empty directories, but git needs some.
  for (const name of await namesIn(join(draft, 'git'))) {
    for (const needed of REPOSITORY_DIRECTORIES) {
      await mkdir(join(draft, 'git', name, needed), { recursive: true })
    }
  }
  await flushTree(draft)
}
