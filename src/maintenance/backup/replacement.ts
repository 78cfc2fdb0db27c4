/**
 * Replaces files by restored ones, and moves the old ones to `DATA_DIR/replaced-…`. All new files are in
 * `DATA_DIR/restoring` before the first move, with a list of the moves. So the next restore finishes an interrupted
 * replacement.
 */
import { lstat, mkdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { checkOf } from '../../storage/checked-json.ts'
import { flush, namesIn, unlessMissing } from '../../storage/disk.ts'
import { REPLACEMENT, RESTORING } from '../../storage/unfinished-restore.ts'
import { replaceableIn } from './existing-data.ts'
import { BackupProblem } from './manifest.ts'
import { pathOccupied } from './startup-files.ts'

const Replacement = Type.Object({
  /** The SHA-256 of the list of files of the backup that is restored. */
  backup: Type.String(),
  /** Name of the directory for the old files. */
  aside: Type.String({ pattern: '^replaced-[0-9TZ-]+$' }),
  /** The names that are moved there. */
  names: Type.Array(Type.String({ pattern: '^[^/]+$' })),
})
const isReplacement = checkOf(Replacement)

export type Replacement = Static<typeof Replacement>

/** Returns an interrupted replacement; undefined without one. @throws BackupProblem when its list is damaged */
export async function replacementIn(dataDir: string): Promise<Replacement | undefined> {
  const file = join(dataDir, RESTORING, REPLACEMENT)
  const text = await unlessMissing(readFile(file, 'utf8'))
  if (text === undefined) return undefined
  try {
    const value: unknown = JSON.parse(text)
    if (isReplacement(value)) return value
  } catch {
    // Reported below, like one without its fields.
  }
  throw new BackupProblem(`DATA_DIR: ${file} is damaged`)
}

/** Commits the complete and flushed files in `restoring` as the replacement. */
export async function beginReplacement(dataDir: string, backup: string): Promise<void> {
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '-')
  const replacement: Replacement = { backup, aside: `replaced-${time}Z`, names: await replaceableIn(dataDir) }
  const directory = join(dataDir, RESTORING)
  const draft = join(directory, `${REPLACEMENT}.draft`)
  await writeFile(draft, JSON.stringify(replacement), { flush: true })
  await rename(draft, join(directory, REPLACEMENT))
  await flush(directory)
}

/**
 * Moves all files to their places. May be repeated after a crash. Resolves to the directory of the old files.
 * @throws BackupProblem when a file cannot be moved, such as a mount point; then nothing has changed
 */
export async function finishReplacement(dataDir: string, { aside, names }: Replacement): Promise<string> {
  const kept = join(dataDir, aside)
  const draft = join(dataDir, RESTORING)
  await mkdir(kept, { recursive: true, mode: 0o700 })
  // Move all old files before the first new one: otherwise a repetition could mistake one for the other.
  for (const name of names) {
    const path = join(dataDir, name)
    if (await nameExists(join(kept, name))) continue
    // A file may be missing: SQLite removes `-wal` and `-shm` when its last connection ends.
    await unlessMissing(rename(path, join(kept, name))).catch(async (error: unknown) => {
      await moveBack(dataDir, { aside, names })
      throw pathOccupied(path, error)
    })
  }
  await flush(kept)
  await flush(dataDir)
  for (const name of await namesIn(draft)) {
    if (name !== REPLACEMENT) await rename(join(draft, name), join(dataDir, name))
  }
  await flush(dataDir)
  // The name changes in one step: there is never a `restoring` without its file.
  await rename(draft, join(kept, RESTORING))
  await flush(dataDir)
  await rm(join(kept, RESTORING), { recursive: true, force: true })
  return kept
}

/** Moves the old files back while no new file is in place. May be repeated after a crash. */
async function moveBack(
  dataDir: string,
  { aside, names }: Pick<Replacement, 'aside' | 'names'>,
): Promise<void> {
  const kept = join(dataDir, aside)
  for (const name of names) {
    if (await nameExists(join(kept, name))) await rename(join(kept, name), join(dataDir, name))
  }
  await flush(kept)
  await flush(dataDir)
  await rename(join(dataDir, RESTORING), join(kept, RESTORING))
  await flush(dataDir)
  await rm(join(kept, RESTORING), { recursive: true, force: true })
  await rmdir(kept).catch(() => undefined)
}

/** Whether the name exists, also as a dangling link. */
const nameExists = async (path: string) => (await unlessMissing(lstat(path))) !== undefined
