/** The thread program of `builder.ts`: folds events into the files of moments. */
import { copyFileSync, existsSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { LOG_START, type RecordedEvent } from '../../events/store/event-store.ts'
import { serveInOrder } from '../../storage/request-thread.ts'
import { type Bytes, connect, type Sqlite, selectColumn } from '../../storage/sqlite/sqlite.ts'
import type { Run } from '../../storage/sqlite/writer.ts'
import { eventsFor, readBatch } from '../projector/readable-events.ts'
import type { AnyCollection } from '../store/read-store.ts'
import { selectMany } from '../store/sqlite/documents.ts'
import { groupsOf, replacedBy, type Written, writeGroup } from '../store/sqlite/groups.ts'
import { prepareCollection, prepareStore, tablesOf } from '../store/sqlite/schema.ts'
import { cachedStatements } from '../store/sqlite/statements.ts'
import type { BuilderStep } from './builder.ts'
import { MOMENT_MODELS, type ModelGroup } from './moment-models.ts'
import { createPendingDocuments } from './pending-documents.ts'

/**
 * A file has one writer and is complete before anyone reads it; after a crash it is removed. So it needs neither a journal nor
 * a sync.
 */
const SETTINGS =
  'PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -8192; ' +
  'PRAGMA temp_store = MEMORY'

interface Build {
  db: Sqlite
  run: Run
  documents: ReturnType<typeof createPendingDocuments>
  /** Whether the documents of accounts are of this build. */
  hasOwnAccounts: boolean
}

const builds = new Map<string, Build>()

/** Opens a file, whose one transaction ends with the build. */
function opened(file: string): Build {
  const db = connect(file)
  db.exec(SETTINGS)
  db.exec('BEGIN')
  const statements = cachedStatements((sql) => db.prepare(sql))
  const columns = cachedStatements((sql) => selectColumn<[string], Bytes | null>(db, sql))
  const run: Run = (sql, ...parameters) => void statements(sql).run(...parameters)
  const stored = <D extends object>(collection: AnyCollection, ids: readonly string[]) =>
    selectMany<D>(file, collection, ids, (sql, parameter) => columns(sql).get(parameter))
  const documents = createPendingDocuments({
    stored,
    write(changes) {
      const written: Written = new Map()
      for (const group of groupsOf(changes))
        writeGroup(run, group, replacedBy(group, written, stored), written)
    },
  })
  return { db, run, documents, hasOwnAccounts: false }
}

function close({ db }: Build): void {
  db.exec('COMMIT')
  db.close()
}

/** Creates the file without documents, once: to copy it is faster than to create all tables. */
function createEmpty(file: string): void {
  const build = opened(`${file}.new`)
  prepareStore(build.db)
  for (const { collection } of Object.values(MOMENT_MODELS).flat()) prepareCollection(build.db, collection)
  close(build)
  renameSync(`${file}.new`, file)
}

function begin({ file, from, empty }: Extract<BuilderStep, { kind: 'begin' }>): void {
  // Another node removes the directory when this one was fenced out for a while.
  mkdirSync(dirname(file), { recursive: true })
  if (from === undefined && !existsSync(empty)) createEmpty(empty)
  copyFileSync(from ?? empty, file)
  builds.set(file, opened(file))
}

/** Removes the documents of accounts that the file was copied with: their events are folded from the first one. */
function clearAccounts({ run }: Build): void {
  for (const { collection } of MOMENT_MODELS.accounts) {
    for (const table of tablesOf(collection)) run(`DELETE FROM ${table}`)
  }
}

async function fold(build: Build, group: ModelGroup, recorded: readonly RecordedEvent[]): Promise<void> {
  const { documents } = build
  if (group === 'accounts' && !build.hasOwnAccounts) {
    clearAccounts(build)
    build.hasOwnAccounts = true
  }
  const batch = readBatch(recorded)
  const [unreadable] = batch.unreadable
  if (unreadable !== undefined) throw unreadable.error
  for (const model of MOMENT_MODELS[group]) {
    const { events } = eventsFor(model, batch, LOG_START - 1)
    if (events.length === 0) continue
    const { changes, poison } = await model.advance(events, documents, false)
    if (poison !== undefined) throw poison.error
    documents.take(changes)
  }
}

async function take(step: BuilderStep): Promise<number> {
  const { kind, file } = step
  if (kind === 'begin') {
    begin(step)
    return 0
  }
  const build = builds.get(file)
  if (kind === 'abandon') {
    builds.delete(file)
    build?.db.close()
    return 0
  }
  if (build === undefined) throw new Error(`${file} is not being built`)
  if (kind === 'fold') {
    await fold(build, step.models, step.events)
    return 0
  }
  builds.delete(file)
  build.documents.writeAll()
  close(build)
  return statSync(file).size
}

serveInOrder(take)
