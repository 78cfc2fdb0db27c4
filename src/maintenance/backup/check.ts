/** Reads every file of backups again and compares it with its checksum. */
import { lstat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { OperatorError } from '../../errors/operator-error.ts'
import { unlessMissing } from '../../storage/disk.ts'
import { listedFiles } from './checksums.ts'
import type { Progress } from './context.ts'
import { sumOf } from './file-copier.ts'
import { DATA, readManifest } from './manifest.ts'
import { datedIn, isSeries } from './series.ts'

export interface CheckedBackup {
  directory: string
  files: number
  bytes: number
  /** Damaged and missing files, at most 100; empty for a sound backup. */
  problems: string[]
}

const MAX_PROBLEMS = 100

/** Checks one backup, or all of a series. A file that several of them share is read once. */
export async function checkBackups(
  directory: string,
  onProgress: (progress: Progress) => void = () => {},
): Promise<CheckedBackup[]> {
  const given = resolve(directory)
  const all = (await isSeries(given)) ? (await datedIn(given)).map((name) => join(given, name)) : [given]
  /** SHA-256 by device and inode. */
  const known = new Map<string, string>()
  const checked: CheckedBackup[] = []
  for (const one of all) checked.push(await checkOne(one, known, onProgress))
  return checked
}

async function checkOne(
  directory: string,
  known: Map<string, string>,
  onProgress: (progress: Progress) => void,
): Promise<CheckedBackup> {
  const problems: string[] = []
  const note = (problem: string) => {
    if (problems.length < MAX_PROBLEMS) problems.push(problem)
  }
  try {
    const { files, bytes } = await readManifest(directory)
    let done = 0
    await forEachConcurrently(listedFiles(directory), async ({ path, sha256 }) => {
      const actual = await sumOnce(join(directory, DATA, path), known)
      if (actual === undefined) note(`${path} is missing`)
      else if (actual !== sha256) note(`${path} is damaged: its SHA-256 differs`)
      done += 1
      onProgress({ step: 'files', done, total: files })
    })
    if (done !== files) note(`it lists ${done} files instead of ${files}`)
    return { directory, files, bytes, problems }
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    return { directory, files: 0, bytes: 0, problems: [error.message] }
  }
}

async function sumOnce(path: string, known: Map<string, string>): Promise<string | undefined> {
  const found = await unlessMissing(lstat(path))
  if (!found?.isFile()) return undefined
  const key = found.nlink > 1 ? `${found.dev}:${found.ino}` : undefined
  const before = key && known.get(key)
  if (before !== undefined) return before
  const { sha256 } = await sumOf(path)
  if (key !== undefined) known.set(key, sha256)
  return sha256
}
