/**
 * Makes a data directory of a backup. Its files come into `DATA_DIR/restoring` first, and get their places when
 * all of them are there, are what the backup's sums say, and are on disk. (A temporary directory beside it would
 * not do: a data directory is often a mount point.) No server starts as long as `restoring` is there.
 */
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { lockDataDir } from '../data-lock.ts'
import { exists, flush, namesIn } from '../disk.ts'
import { createFileCopier, fewAtOnce, flushTree } from './file-copier.ts'
import { RESTORING } from './half-restored.ts'
import { BackupProblem, DATA, type Manifest, readManifest } from './manifest.ts'
import { REPOSITORY_DIRECTORIES } from './repository-copy.ts'
import { listedFiles } from './sums.ts'
import type { Progress } from './work.ts'

export interface RestoreOptions {
  /** Of the backup. */
  directory: string
  /** Not there yet, or empty. */
  dataDir: string
  onProgress?: (progress: Progress) => void
}

export type RestoreResult = Omit<Manifest, 'format' | 'sums'> & { dataDir: string }

/**
 * Every file is compared with its sum while it is copied, which makes the check one of what is restored, too.
 * When it fails, the data directory is as it was.
 *
 * @throws BackupProblem, DataDirInUse, and what the file system throws
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
    // Again: a server may have been faster.
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

/** What a server that was refused, the file system and a restore that was cut off leave in an empty directory. */
const NOTHING = /^(?:lock\.db.*|lost\+found)$/

async function requireEmpty(dataDir: string): Promise<void> {
  const others: string[] = []
  for (const name of await namesIn(dataDir)) {
    if (NOTHING.test(name) || name === RESTORING) continue
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

/** Copies what the list names to `draft`; all of it is on disk when this resolves. */
async function copyFiles(
  from: string,
  draft: string,
  total: number,
  onProgress: (progress: Progress) => void,
): Promise<void> {
  const copy = createFileCopier()
  let done = 0
  await fewAtOnce(listedFiles(from), async ({ path, sha256 }) => {
    const source = join(from, DATA, path)
    const copied = await copy(source, join(draft, path))
    if (copied === undefined) throw new BackupProblem(`${source} is missing`)
    if (copied.sha256 !== sha256) throw new BackupProblem(`${source} is damaged: its SHA-256 differs`)
    done += 1
    onProgress({ step: 'files', done, total })
  })
  if (done !== total) throw new BackupProblem(`the backup in ${from} has ${done} files instead of ${total}`)
  // Directories that have nothing in them are not in the list.
  for (const name of await namesIn(join(draft, 'git'))) {
    for (const needed of REPOSITORY_DIRECTORIES) {
      await mkdir(join(draft, 'git', name, needed), { recursive: true })
    }
  }
  await flushTree(draft)
}
