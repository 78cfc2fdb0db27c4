/** Copies each database at one moment into one file. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { forgetToken, secretCollections } from '../../auth/secrets.ts'
import { openSqliteEventStore } from '../../events/store/sqlite/sqlite.ts'
import { openSqliteReadStore } from '../../projections/store/sqlite/sqlite.ts'
import { tokenHashes } from '../../services/secret-store.ts'
import { exists } from '../../storage/disk.ts'
import { openSqlite } from '../../storage/sqlite/sqlite.ts'
import type { BackupContext, StoreCopies } from './context.ts'
import { SnapshotFailed, snapshotDatabase } from './database-snapshot.ts'
import { hasErasureAfter, type LogReferences, readLogReferences } from './log-references.ts'
import { COPY_FORMAT } from './manifest.ts'
import { missingSecrets } from './missing-secrets.ts'

export const databaseCopies: StoreCopies = {
  format: COPY_FORMAT,
  files: ['events.db', 'secrets.db', 'views.db'],
  copyBefore: copyReadModels,
  copyLog,
  copySecrets,
  erasedSince,
}

/** Copies the read models. Leaves them out when they are damaged: they can be rebuilt from the log. */
async function copyReadModels({ dataDir, data, onProgress }: BackupContext): Promise<void> {
  const from = join(dataDir, 'views.db')
  const to = join(data, 'views.db')
  if (!(await exists(from))) return
  onProgress({ step: 'read models', done: 0, total: 0 })
  await snapshotDatabase(from, to).catch(async (error: unknown) => {
    if (!(error instanceof SnapshotFailed) || !error.isBroken) throw error
    await rm(to, { force: true })
  })
}

async function copyLog({ dataDir, data, onProgress }: BackupContext): Promise<LogReferences> {
  const file = join(data, 'events.db')
  onProgress({ step: 'log', done: 0, total: 0 })
  await snapshotDatabase(join(dataDir, 'events.db'), file)
  const log = openSqliteEventStore(file)
  try {
    const total = await log.lastPosition()
    return await readLogReferences(log, (done) => onProgress({ step: 'reading the log', done, total }))
  } finally {
    await log.close()
    await checkpointWal(file)
  }
}

async function erasedSince({ dataDir }: BackupContext, { position }: LogReferences): Promise<boolean> {
  const log = openSqliteEventStore(join(dataDir, 'events.db'))
  try {
    return await hasErasureAfter(log, position)
  } finally {
    await log.close()
  }
}

/** Checkpoints and deletes the WAL of an unused database. */
export async function checkpointWal(file: string): Promise<void> {
  const db = openSqlite(file, 'FULL')
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } finally {
    db.close()
  }
  for (const end of ['-wal', '-shm', '-journal']) await rm(`${file}${end}`, { force: true })
}

/**
 * Copies the secrets, without those of tokens that are not in the copied log. After a restore, new tokens
 * will get the same ids, and must not get the old secrets.
 */
async function copySecrets(
  { dataDir, data, onProgress }: BackupContext,
  named: LogReferences,
): Promise<string[]> {
  const from = join(dataDir, 'secrets.db')
  if (!(await exists(from))) return []
  onProgress({ step: 'secrets', done: 0, total: 0 })
  const to = join(data, 'secrets.db')
  await snapshotDatabase(from, to)
  const secrets = openSqliteReadStore(to, 'FULL')
  try {
    await secrets.prepare(secretCollections)
    for (const { tokenId } of await secrets.find(tokenHashes, {})) {
      if (!named.tokens.has(tokenId)) await forgetToken(secrets, tokenId)
    }
    return await missingSecrets(secrets, named)
  } finally {
    await secrets.close()
    await checkpointWal(to)
  }
}
