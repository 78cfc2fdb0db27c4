/** The databases of a backup: each a copy of one moment, in one file. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { exists } from '../disk.ts'
import { openSqliteEventStore } from '../events/sqlite.ts'
import { openSqliteReadStore } from '../projections/sqlite.ts'
import { forgetToken, secretCollections, tokenHashes } from '../rights/secrets.ts'
import { openSqlite } from '../sqlite.ts'
import { SnapshotFailed, snapshotDatabase } from './database-snapshot.ts'
import { type NamedByLog, namedByLog } from './named-by-log.ts'
import type { Work } from './work.ts'

/** They can be made again from the log: when they are damaged the backup has none. */
export async function copyReadModels({ dataDir, data, onProgress }: Work): Promise<void> {
  const from = join(dataDir, 'views.db')
  const to = join(data, 'views.db')
  if (!(await exists(from))) return
  onProgress({ step: 'read models', done: 0, total: 0 })
  await snapshotDatabase(from, to).catch(async (error: unknown) => {
    if (!(error instanceof SnapshotFailed) || !error.isBroken) throw error
    await rm(to, { force: true })
  })
}

export async function copyLog({ dataDir, data, onProgress }: Work): Promise<NamedByLog> {
  const file = join(data, 'events.db')
  onProgress({ step: 'log', done: 0, total: 0 })
  await snapshotDatabase(join(dataDir, 'events.db'), file)
  const log = openSqliteEventStore(file)
  try {
    const total = await log.lastPosition()
    return await namedByLog(log, (done) => onProgress({ step: 'reading the log', done, total }))
  } finally {
    await log.close()
    await leaveWal(file)
  }
}

/** Closing leaves what was written in the file beside it, which is not copied: all goes into the one file. */
async function leaveWal(file: string): Promise<void> {
  const db = openSqlite(file, 'FULL')
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } finally {
    db.close()
  }
  for (const end of ['-wal', '-shm', '-journal']) await rm(`${file}${end}`, { force: true })
}

/**
 * Secrets of tokens that the log does not name are left out: their ids will be taken again, by tokens of
 * another life.
 */
export async function copySecrets(
  { dataDir, data, onProgress }: Work,
  { tokens }: NamedByLog,
): Promise<void> {
  const from = join(dataDir, 'secrets.db')
  if (!(await exists(from))) return
  onProgress({ step: 'secrets', done: 0, total: 0 })
  const to = join(data, 'secrets.db')
  await snapshotDatabase(from, to)
  const secrets = openSqliteReadStore(to, 'FULL')
  try {
    await secrets.prepare(secretCollections)
    for (const { tokenId } of await secrets.find(tokenHashes, {})) {
      if (!tokens.has(tokenId)) await forgetToken(secrets, tokenId)
    }
  } finally {
    await secrets.close()
    await leaveWal(to)
  }
}
