/**
 * The previous backup. Unchanged files become hard links to its copies: `docs/decisions/backups-by-hard-links.md`
 * explains when that is safe.
 */
import { link, lstat, mkdir, rm, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hasCode, unlessMissing } from '../../storage/disk.ts'
import { connect, type Sqlite, selectColumn } from '../../storage/sqlite/sqlite.ts'
import { listedFiles } from './checksums.ts'
import { type CopiedFile, type Original, sumOf } from './file-copier.ts'
import { DATA, EARLIER_SUMS } from './manifest.ts'

export interface PreviousBackup {
  /**
   * Links the previous copy of `path` (relative to `data/`) to `to`. Resolves to undefined when the copy differs from
   * the original or cannot be linked, so that the file must be copied.
   */
  linkTo(path: string, original: Original, to: string): Promise<CopiedFile | undefined>
  /** Damaged or missing files of the earlier backup. */
  damaged: string[]
  close(): Promise<void>
}

const LINES_PER_WRITE = 1000

/**
 * Opens a backup whose manifest was read. A database in `directory` holds its list of files, possibly millions.
 * `reread` selects a sixteenth of its copies, by the first hex digit of their SHA-256, to be read again.
 */
export async function openPreviousBackup(
  backup: string,
  directory: string,
  reread: number,
): Promise<PreviousBackup> {
  const file = join(directory, EARLIER_SUMS)
  const db = connect(file)
  db.exec('PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE')
  db.exec('CREATE TABLE sums (path TEXT PRIMARY KEY, sha256 TEXT NOT NULL) WITHOUT ROWID')
  let isOpen = true
  const close = async () => {
    if (isOpen) db.close()
    isOpen = false
    await rm(file, { force: true })
  }
  try {
    await readSums(db, backup)
  } catch (error) {
    await close()
    throw error
  }
  const find = selectColumn<[string], string>(db, 'SELECT sha256 FROM sums WHERE path = ?')
  const damaged: string[] = []

  async function linkTo(path: string, original: Original, to: string): Promise<CopiedFile | undefined> {
    const sha256 = find.get(path)
    if (sha256 === undefined) return undefined
    const copy = join(backup, DATA, path)
    const found = await unlessMissing(lstat(copy))
    if (found === undefined) damaged.push(path)
    if (!found?.isFile() || found.size !== original.size) return undefined
    // A copy has the time of its original. The times differ when one file was written since, or git only set its time:
    // then compare bytes.
    const isUntouched = Math.round(found.mtimeMs) === Math.round(original.mtimeMs)
    if (!isUntouched || Number.parseInt(sha256.charAt(0), 16) === reread) {
      if ((await sumOf(copy)).sha256 !== sha256) {
        damaged.push(path)
        return undefined
      }
    }
    if (!isUntouched && (await unlessMissing(sumOf(original.path)))?.sha256 !== sha256) return undefined
    if (!(await isLinked(copy, to))) return undefined
    if (!isUntouched) await utimes(to, new Date(), new Date(Math.round(original.mtimeMs)))
    return { size: found.size, sha256, isLinked: true }
  }

  return { linkTo, damaged, close }
}

async function readSums(db: Sqlite, backup: string): Promise<void> {
  const insert = db.prepare('INSERT OR REPLACE INTO sums VALUES (?, ?)')
  let lines = 0
  db.exec('BEGIN')
  for await (const { path, sha256 } of listedFiles(backup)) {
    insert.run(path, sha256)
    lines += 1
    if (lines % LINES_PER_WRITE === 0) db.exec('COMMIT; BEGIN')
  }
  db.exec('COMMIT')
}

/** Errors of file systems without hard links, or with a limit of them. The file is then copied. */
const NO_LINK = ['EMLINK', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV', 'ENOENT']

async function isLinked(copy: string, to: string): Promise<boolean> {
  const once = () =>
    link(copy, to).then(
      () => true,
      (error: unknown) => {
        if (NO_LINK.some((code) => hasCode(error, code))) return false
        throw error
      },
    )
  if (await once()) return true
  await mkdir(dirname(to), { recursive: true })
  return await once()
}
