/** Copies an SQLite database as it is at one moment, while others write to it. */
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { BackupProblem } from './manifest.ts'

/**
 * The code of a worker thread, so that copying doesn't block this process. It is a string because a worker
 * needs JavaScript, and this file may run as TypeScript.
 *
 * `VACUUM INTO` reads in one transaction: writers don't wait for it, and it doesn't see their later changes.
 */
const SNAPSHOT = `
  const { workerData } = require('node:worker_threads')
  const Database = require(workerData.driver)
  const db = new Database(workerData.from)
  try {
    db.exec('PRAGMA busy_timeout = 30000')
    db.prepare('VACUUM INTO ?').run(workerData.to)
  } catch (error) {
    // The driver's error class can't be sent to the other thread.
    throw new Error(error.message)
  } finally {
    db.close()
  }
`

export class SnapshotFailed extends BackupProblem {
  /** Whether the original is damaged or not a database. */
  readonly isBroken: boolean

  constructor(file: string, cause: Error) {
    super(`${file} can't be copied: ${cause.message}`, { cause })
    this.isBroken = /malformed|not a database/.test(cause.message)
  }
}

/**
 * Copies the database in `from`, which must exist, to `to`. Replaces an existing file. Does not flush.
 * @throws SnapshotFailed
 */
export async function snapshotDatabase(from: string, to: string): Promise<void> {
  await rm(to, { force: true })
  const driver = createRequire(import.meta.url).resolve('libsql')
  // The worker needs none of this process's Node options (for example a TypeScript loader).
  const worker = new Worker(SNAPSHOT, { eval: true, execArgv: [], workerData: { driver, from, to } })
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject)
    worker.once('exit', () => resolve())
  }).catch((error: unknown) => {
    throw new SnapshotFailed(from, error instanceof Error ? error : new Error(String(error)))
  })
}
