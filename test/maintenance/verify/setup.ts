/** A small data directory with data, and functions that verify it and tamper with it. */
import { readFileSync, writeFileSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import root, { type Test } from 'tap'
import { seedEvents } from '../../../bench/seed/events.ts'
import type { RecordedEvent } from '../../../src/events/store/event-store.ts'
import { checkSqliteLog } from '../../../src/events/store/sqlite/check.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import type { VerifyReport } from '../../../src/maintenance/verify/report.ts'
import { type VerifyOptions, verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { checkSqliteViews } from '../../../src/projections/store/sqlite/check.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { openSqlite } from '../../../src/storage/sqlite/sqlite.ts'

const author = { id: 1, login: 'alice' }
const log = pino({ level: 'silent' })

export interface Directory {
  dir: string
  eventsFile: string
  viewsFile: string
}

/** Created for the first test of a file, and copied for each. */
let template: Promise<string> | undefined

/**
 * Two repositories with pull requests and issues, in the log and in the read models. All files are closed.
 */
export async function aDirectory(t: Test): Promise<Directory> {
  const dir = t.testdir()
  template ??= make()
  await cp(await template, dir, { recursive: true })
  return filesIn(dir)
}

const filesIn = (dir: string) => ({
  dir,
  eventsFile: join(dir, 'events.db'),
  viewsFile: join(dir, 'views.db'),
})

async function make(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-verify-'))
  root.teardown(() => rm(dir, { recursive: true, force: true }))
  const { eventsFile, viewsFile } = filesIn(dir)
  const events = openSqliteEventStore(eventsFile)
  const repositories = [
    { name: 'one', pulls: 4, issues: 6 },
    { name: 'two', issues: 3 },
  ]
  await seedEvents(events, { owner: { ...author, kind: 'user' }, author, repositories })
  const views = openSqliteReadStore(viewsFile)
  const projector = createProjector({ log, events, views, models: READ_MODELS })
  await projector.start()
  if (!(await projector.waitFor(await events.lastPosition(), 60_000))) throw new Error('it lags')
  await projector.stop()
  await Promise.all([events.close(), views.close()])
  return dir
}

/** The report of verify about the directory. */
export async function verified(
  { dir, eventsFile, viewsFile }: Directory,
  options: Partial<VerifyOptions> = {},
): Promise<VerifyReport> {
  const events = openSqliteEventStore(eventsFile)
  const readStore = openSqliteReadStore(viewsFile)
  // Check the files in this process: starting a child process from TypeScript takes a second.
  const files = {
    log: async () => checkSqliteLog(eventsFile),
    views: async () => checkSqliteViews(viewsFile),
  }
  try {
    return await verifyServer({
      events,
      readStore,
      models: READ_MODELS,
      scratchDir: dir,
      files,
      ...options,
    })
  } finally {
    await Promise.all([events.close(), readStore.close()])
  }
}

export async function eventsIn({ eventsFile }: Directory): Promise<RecordedEvent[]> {
  const store = openSqliteEventStore(eventsFile)
  const events = await Array.fromAsync(store.readAll())
  await store.close()
  return events
}

/**
 * Runs SQL on a file, like an attacker with a database tool. Moves all changes from the WAL into the file.
 */
export function tamper(file: string, sql: string): void {
  const db = openSqlite(file, 'NORMAL')
  // Also the tables of a full text index.
  db.enableDefensive(false)
  db.exec(sql)
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  db.close()
}

/** The offsets of a text in a file. */
export function offsetsOf(file: string, text: string): number[] {
  tamper(file, 'PRAGMA wal_checkpoint(TRUNCATE)')
  const bytes = readFileSync(file)
  const offsets: number[] = []
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) offsets.push(at)
  return offsets
}

/**
 * Flips one bit of the byte at an offset. A second call restores it. With bit 7, ASCII text becomes invalid
 * UTF-8.
 */
export function changeByte(file: string, offset: number, bit = 0): void {
  const bytes = readFileSync(file)
  bytes[offset] = (bytes[offset] ?? 0) ^ (1 << bit)
  writeFileSync(file, bytes)
}
