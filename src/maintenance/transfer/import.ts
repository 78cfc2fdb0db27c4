/**
 * Fills an empty installation of any kind from an export. The steps are:
 *
 * 1. Refuse a target that is not empty. Nothing is written before that. 2. Check every file of the export. Copy git and
 * attached files to `DATA_DIR/restoring`. No server starts while that directory exists. 3. Append the events, in their
 * order, then write the secrets and the positions of the processes. Embedded stores are files in `restoring`. A log in
 * EventStoreDB is marked until the end, so that no server with another DATA_DIR starts on it. 4. Move the files to
 * their places.
 *
 * After an interruption, the same import may be run again. It creates the files again, and continues in the log of
 * EventStoreDB after its last event. The next start builds the read models.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { secretCollections } from '../../auth/secrets.ts'
import type { Config } from '../../config/config.ts'
import { createDataDir } from '../../config/create-directories.ts'
import { LOG_START } from '../../events/store/event-store.ts'
import { processCheckpoint } from '../../processes/process-manager.ts'
import type { Change, ReadStore } from '../../projections/store/read-store.ts'
import { OWN_FORMAT, writeDataFormat } from '../../storage/data-format.ts'
import { lockDataDir, STOP_THE_SERVER } from '../../storage/data-lock.ts'
import { flush } from '../../storage/disk.ts'
import { IMPORT_STATE, RESTORING } from '../../storage/unfinished-restore.ts'
import type { Progress } from '../backup/context.ts'
import { BackupProblem, DATA, EXPORT_FORMAT, type Manifest, readManifest } from '../backup/manifest.ts'
import { copyFiles, type RestoreResult, requireEmpty } from '../backup/restore.ts'
import { removeStartupFiles } from '../backup/startup-files.ts'
import { isProcessPosition, isSecret, LOG, PROCESS_POSITIONS, type ProcessLine, SECRETS } from './format.ts'
import { type ImportState, importStateIn, writeImportState } from './import-state.ts'
import { valuesIn } from './lines.ts'
import { importLog, refuseLargeEvents } from './log-import.ts'
import {
  asInterrupted,
  openTargetLog,
  openTargetReadStores,
  requireEmptyMongo,
  type TargetLog,
} from './target.ts'

export interface ImportOptions {
  /** The directory of the export. */
  directory: string
  /** Names the stores to fill. */
  config: Config
  onProgress?: (progress: Progress) => void
}

/** A renamed `restoring`, until it is deleted. */
const DONE = 'import-done'
const STORE_FILES = new Set([LOG, SECRETS, PROCESS_POSITIONS])
const SECRETS_PER_WRITE = 500

/**
 * Imports an export into an empty installation. A refused import changes nothing.
 *
 * @throws BackupProblem, DataDirInUse, and errors of the file system
 */
export async function importExport({
  directory,
  config,
  onProgress = () => {},
}: ImportOptions): Promise<RestoreResult> {
  const { dataDir } = config
  const from = resolve(directory)
  const manifest = await readManifest(from)
  if (manifest.format !== EXPORT_FORMAT) {
    throw new BackupProblem(`${from} is a copy of a DATA_DIR: "mergelog restore" is for it`)
  }
  await importStateOf(dataDir, manifest)
  await createDataDir(dataDir)
  const unlock = lockDataDir(dataDir, 'alone', STOP_THE_SERVER)
  try {
    // Read again under the lock: another import may have continued meanwhile.
    const state = await importStateOf(dataDir, manifest)
    if (state?.complete !== true) await removeStartupFiles(dataDir)
    const log = await openTargetLog(config, join(dataDir, RESTORING), manifest.sums)
    try {
      const earlier = await earlierPart(config, log, state)
      await finish({ from, config, manifest, log, earlier, onProgress }).catch((error: unknown) => {
        throw usesServer(config) ? asInterrupted(error) : error
      })
    } finally {
      await log.close()
    }
    // The name changes in one step: there is never a `restoring` without its state.
    await rename(join(dataDir, RESTORING), join(dataDir, DONE))
    await flush(dataDir)
    await rm(join(dataDir, DONE), { recursive: true, force: true })
  } finally {
    unlock()
  }
  const { format: _format, sums: _sums, ...contents } = manifest
  return { ...contents, dataDir }
}

/** The state of an interrupted import. @throws BackupProblem when the data directory has other data */
async function importStateOf(dataDir: string, { sums }: Manifest): Promise<ImportState | undefined> {
  const state = await importStateIn(dataDir)
  if (state !== undefined && state.export !== sums) {
    throw new BackupProblem(`DATA_DIR: an import of another export into ${dataDir} was cut off`)
  }
  if (state?.complete !== true) await requireEmpty(dataDir)
  return state
}

/** Data of an interrupted import in the stores. */
interface EarlierPart {
  state: ImportState | undefined
  /** Whether the log in EventStoreDB has the first events. */
  log: boolean
}

/** Returns the data of an interrupted import. @throws BackupProblem when a store has other data */
async function earlierPart(
  config: Config,
  log: TargetLog,
  state: ImportState | undefined,
): Promise<EarlierPart> {
  if (state?.complete === true) return { state, log: true }
  const begun = await log.begun()
  await requireEmptyMongo(config, begun || state !== undefined)
  return { state, log: begun }
}

interface Filling {
  /** The directory of the export. */
  from: string
  config: Config
  manifest: Manifest
  log: TargetLog
  earlier: EarlierPart
  onProgress: (progress: Progress) => void
}

async function finish(filling: Filling): Promise<void> {
  const { config, log, earlier } = filling
  if (earlier.state?.complete !== true) await fill(filling)
  await moveToPlaces(config.dataDir)
  await log.unmark()
}

/** Whether an import writes to a server: then a failure may leave data. */
const usesServer = ({ eventStoreUrl, mongodbUrl }: Config) =>
  eventStoreUrl !== undefined || mongodbUrl !== undefined

/** Fills the stores and `DATA_DIR/restoring`. Removes its files when it fails before a write to a server. */
async function fill({ from, config, manifest, log, earlier, onProgress }: Filling): Promise<void> {
  const { dataDir } = config
  const hasServer = usesServer(config)
  const { state, log: continues } = earlier
  const draft = join(dataDir, RESTORING)
  await mkdir(draft, { recursive: true })
  for (const name of await readdir(draft)) {
    if (name !== IMPORT_STATE) await rm(join(draft, name), { recursive: true, force: true })
  }
  await writeImportState(dataDir, { export: manifest.sums, complete: false })
  await flush(dataDir)
  let leavesNothing = !hasServer || (!continues && state === undefined)
  try {
    await copyFiles(from, draft, manifest.files, onProgress, (path) => STORE_FILES.has(path))
    const data = join(from, DATA)
    if (!log.isEmbedded) await refuseLargeEvents(join(data, LOG))
    leavesNothing = !hasServer
    if (!continues) await log.mark()
    const processes: ProcessLine[] = []
    for await (const { value } of valuesIn(join(data, PROCESS_POSITIONS), isProcessPosition)) {
      processes.push(value)
    }
    const positions = await importLog({
      path: join(data, LOG),
      total: manifest.events,
      log,
      continues,
      retried: !log.isEmbedded,
      processes,
      onEvents: (done) => onProgress({ step: 'log', done, total: manifest.events }),
    })
    await log.settle()
    await fillReadStores(config, draft, join(data, SECRETS), positions)
    await writeDataFormat(draft, { ...OWN_FORMAT, format: manifest.dataFormat })
    for (const name of await readdir(draft)) await flush(join(draft, name))
    await flush(draft)
    await writeImportState(dataDir, { export: manifest.sums, complete: true })
  } catch (error) {
    if (leavesNothing) await rm(draft, { recursive: true, force: true }).catch(() => undefined)
    throw error
  }
}

/** Writes the secrets and the positions of the processes. Resolves when they are on disk. */
async function fillReadStores(
  config: Config,
  draft: string,
  secretLines: string,
  positions: readonly ProcessLine[],
): Promise<void> {
  const { views, secrets, settle, close } = await openTargetReadStores(config, draft)
  try {
    await secrets.prepare(secretCollections)
    let changes: Change[] = []
    for await (const { value } of valuesIn(secretLines, isSecret)) {
      const collection = secretCollections.find(({ name }) => name === value.collection)
      // The check of the line accepts the same names only.
      if (collection === undefined) continue
      changes.push({ op: 'put', collection, id: value.id, position: LOG_START, body: value.body })
      if (changes.length < SECRETS_PER_WRITE) continue
      await write(secrets, changes)
      changes = []
    }
    await write(secrets, changes)
    await views.apply(
      [],
      new Map(positions.map(({ process, position }) => processCheckpoint(process, position))),
    )
    await settle()
  } finally {
    await close()
  }
}

async function write(secrets: ReadStore, changes: readonly Change[]): Promise<void> {
  if (changes.length > 0) await secrets.apply(changes, new Map())
}

/** Moves the files in `restoring` to their places. May be repeated after a crash. */
async function moveToPlaces(dataDir: string): Promise<void> {
  const draft = join(dataDir, RESTORING)
  for (const name of await readdir(draft)) {
    if (name !== IMPORT_STATE) await rename(join(draft, name), join(dataDir, name))
  }
  await flush(dataDir)
}
