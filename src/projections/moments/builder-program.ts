/** The thread program of `builder.ts`: folds events into the files of moments. */
import { copyFileSync, existsSync, renameSync, statSync } from 'node:fs'
import { LOG_START, type RecordedEvent } from '../../events/store/event-store.ts'
import { serveInOrder } from '../../storage/request-thread.ts'
import {
  type Bytes,
  connect,
  type Parameter,
  type Sqlite,
  selectColumn,
} from '../../storage/sqlite/sqlite.ts'
import { eventsFor, readBatch } from '../projector/readable-events.ts'
import type { AnyCollection, Collection, Stored } from '../store/read-store.ts'
import { selectMany } from '../store/sqlite/documents.ts'
import { groupsOf, replacedBy, type Written, writeGroup } from '../store/sqlite/groups.ts'
import { prepareCollection, prepareStore, tablesOf } from '../store/sqlite/schema.ts'
import { cachedStatements } from '../store/sqlite/statements.ts'
import type { BuilderStep } from './builder.ts'
import { MOMENT_MODELS, type ModelGroup } from './moment-models.ts'

/**
 * A file has one writer and is complete before anyone reads it; after a crash it is removed. So it needs neither a journal nor
 * a sync.
 */
const SETTINGS =
  'PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -16384; ' +
  'PRAGMA temp_store = MEMORY'

interface Build {
  db: Sqlite
  run(sql: string, ...parameters: Parameter[]): void
  stored<D extends object>(collection: AnyCollection, ids: readonly string[]): Stored<D>[]
}

const builds = new Map<string, Build>()

function opened(file: string): Build {
  const db = connect(file)
  db.exec(SETTINGS)
  const statements = cachedStatements((sql) => db.prepare(sql))
  const columns = cachedStatements((sql) => selectColumn<[string], Bytes | null>(db, sql))
  return {
    db,
    run: (sql, ...parameters) => void statements(sql).run(...parameters),
    stored: (collection, ids) =>
      selectMany(file, collection, ids, (sql, parameter) => columns(sql).get(parameter)),
  }
}

/** Creates the file without documents, once: to copy it is faster than to create all tables. */
function createEmpty(file: string): void {
  const { db } = opened(`${file}.new`)
  db.exec('BEGIN')
  prepareStore(db)
  for (const { collection } of Object.values(MOMENT_MODELS).flat()) prepareCollection(db, collection)
  db.exec('COMMIT')
  db.close()
  renameSync(`${file}.new`, file)
}

function begin({ file, from, empty }: Extract<BuilderStep, { kind: 'begin' }>): void {
  if (from === undefined && !existsSync(empty)) createEmpty(empty)
  copyFileSync(from ?? empty, file)
  const build = opened(file)
  builds.set(file, build)
  if (from === undefined) return
  for (const { collection } of MOMENT_MODELS.accounts) {
    for (const table of tablesOf(collection)) build.run(`DELETE FROM ${table}`)
  }
}

async function fold(build: Build, group: ModelGroup, recorded: readonly RecordedEvent[]): Promise<void> {
  const batch = readBatch(recorded)
  const [unreadable] = batch.unreadable
  if (unreadable !== undefined) throw unreadable.error
  const documents = {
    getMany: async <D extends object>(collection: Collection<D>, ids: readonly string[]) =>
      build.stored<D>(collection, ids),
  }
  const written: Written = new Map()
  build.db.exec('BEGIN')
  for (const model of MOMENT_MODELS[group]) {
    const { events } = eventsFor(model, batch, LOG_START - 1)
    if (events.length === 0) continue
    const { changes, poison } = await model.advance(events, documents, false)
    if (poison !== undefined) throw poison.error
    for (const changed of groupsOf(changes)) {
      writeGroup(build.run, changed, replacedBy(changed, written, build.stored), written)
    }
  }
  build.db.exec('COMMIT')
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
  build.db.close()
  return statSync(file).size
}

serveInOrder(take)
