/** A copy of an SQLite database as it is at one moment, taken while others write to it. */
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { BackupProblem } from './manifest.ts'

/**
 * A thread of its own, so that the rest of this process goes on. Its text is here because it has to be JavaScript
 * wherever this file is run from, built or not.
 *
 * `VACUUM INTO` reads in one transaction: writers don't wait for it, and it sees none of what they do meanwhile.
 */
const SNAPSHOT = `
  const { workerData } = require('node:worker_threads')
  const Database = require(workerData.driver)
  const db = new Database(workerData.from)
  try {
    db.exec('PRAGMA busy_timeout = 30000')
    db.prepare('VACUUM INTO ?').run(workerData.to)
  } catch (error) {
    // The driver's own class does not reach the other thread.
    throw new Error(error.message)
  } finally {
    db.close()
  }
`

export class SnapshotFailed extends BackupProblem {
  /** It is the original that can't be read: it is damaged, or no database. */
  readonly isBroken: boolean

  constructor(file: string, cause: Error) {
    super(`${file} can't be copied: ${cause.message}`, { cause })
    this.isBroken = /malformed|not a database/.test(cause.message)
  }
}

/**
 * Writes the database in `from`, which must exist, to the new file `to`, replacing what is there; not flushed.
 * @throws SnapshotFailed
 */
export async function snapshotDatabase(from: string, to: string): Promise<void> {
  await rm(to, { force: true })
  const driver = createRequire(import.meta.url).resolve('libsql')
  // Nothing that this process was started with concerns the thread, or its text.
  const worker = new Worker(SNAPSHOT, { eval: true, execArgv: [], workerData: { driver, from, to } })
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject)
    worker.once('exit', () => resolve())
  }).catch((error: unknown) => {
    throw new SnapshotFailed(from, error instanceof Error ? error : new Error(String(error)))
  })
}
