/** The existing contents of a data directory, which a restore would replace. */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { checked, checkOf } from '../../storage/checked-json.ts'
import { exists, namesIn, unlessMissing } from '../../storage/disk.ts'
import { isDataDirEntry } from '../../storage/private-files.ts'
import { openSqlite } from '../../storage/sqlite/sqlite.ts'
import { RESTORING } from '../../storage/unfinished-restore.ts'
import { isStartupFile } from './startup-files.ts'

export interface ExistingData {
  /** Summary of its embedded log; undefined without a readable one. */
  log: { events: number; first: string | null; last: string | null } | undefined
  repositories: number
  bytes: number
}

/** Returns the names in a data directory that a restore replaces. It leaves other files. */
export async function replaceableIn(dataDir: string): Promise<string[]> {
  return (await namesIn(dataDir))
    .filter((name) => isDataDirEntry(name) && !name.startsWith('lock.db') && name !== RESTORING)
    .sort()
}

/** Returns the contents of an unused data directory; undefined when it holds no data. */
export async function existingDataIn(dataDir: string): Promise<ExistingData | undefined> {
  const names = await replaceableIn(dataDir)
  const startupFiles = await Promise.all(names.map((name) => isStartupFile(dataDir, name)))
  if (startupFiles.every(Boolean)) return undefined
  const repositories = await namesIn(join(dataDir, 'git'))
  let bytes = 0
  for (const name of names) bytes += await bytesBelow(join(dataDir, name))
  return {
    log: await logIn(join(dataDir, 'events.db')).catch(() => undefined),
    repositories: repositories.filter((name) => name.endsWith('.git')).length,
    bytes,
  }
}

async function bytesBelow(path: string): Promise<number> {
  const found = await unlessMissing(lstat(path))
  if (found === undefined) return 0
  if (!found.isDirectory()) return found.size
  let bytes = 0
  for (const name of await namesIn(path)) bytes += await bytesBelow(join(path, name))
  return bytes
}

const Moment = Type.Union([Type.String(), Type.Null()])
const LogRow = Type.Object({ events: Type.Integer(), first: Moment, last: Moment })
const isLogRow = checkOf(LogRow)

async function logIn(file: string): Promise<Static<typeof LogRow> | undefined> {
  if (!(await exists(file))) return undefined
  const db = openSqlite(file, 'FULL')
  try {
    const at = (end: 'min' | 'max') =>
      `(SELECT json_extract(metadata, '$.at') FROM events WHERE position = (SELECT ${end}(position) FROM events))`
    const row: unknown = db
      .prepare(`SELECT (SELECT count(*) FROM events) AS events, ${at('min')} AS first, ${at('max')} AS last`)
      .get()
    return checked(isLogRow, row)
  } finally {
    db.close()
  }
}
