/**
 * An export is a backup whose stores are files of JSON lines (`format.ts`), and can be imported into an installation of
 * any kind. `backup/backup.ts` explains its consistency.
 */
import { join } from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import { secretCollections } from '../../auth/secrets.ts'
import type { Config } from '../../config/config.ts'
import type { EventStore } from '../../events/store/event-store.ts'
import { PROCESSES, processPosition } from '../../processes/process-manager.ts'
import { withGenerations } from '../../projections/generations/generations.ts'
import type { AnyCollection, ReadStore } from '../../projections/store/read-store.ts'
import { openSqliteReadStore } from '../../projections/store/sqlite/sqlite.ts'
import { eventsFile, openEvents, openReadStores, secretsFile, viewsFile } from '../../server/stores.ts'
import { refuseNewerData } from '../../storage/data-format.ts'
import { exists } from '../../storage/disk.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import { refuseUnfinishedRestore } from '../../storage/unfinished-restore.ts'
import { type BackupOptions, type BackupResult, backupWith } from '../backup/backup.ts'
import type { BackupContext, StoreCopies } from '../backup/context.ts'
import { addEvent, hasErasureAfter, type LogReferences, noReferences } from '../backup/log-references.ts'
import { BackupProblem, EXPORT_FORMAT } from '../backup/manifest.ts'
import { missingSecrets } from '../backup/missing-secrets.ts'
import { eventLine, LOG, PROCESS_POSITIONS, type ProcessLine, SECRETS, type SecretLine } from './format.ts'
import { openLines } from './lines.ts'

export interface ExportOptions extends Omit<BackupOptions, 'dataDir'> {
  /** Stores to export. Servers may use them meanwhile. */
  config: Config
}

const EVENTS_PER_SLICE = 1000
const SECRETS_PER_READ = 1000

/**
 * Exports an installation to `directory`, which must be new or empty. The directory gets its final name when the whole
 * export is on disk. Files that the log names and DATA_DIR lacks are listed in `missing`.
 *
 * @throws BackupProblem, DataDirInUse (half restored or half imported), BrokenFile, UnreadableEvent, StoreUnavailable,
 * and errors of the file system
 */
export async function exportAll({ config, ...options }: ExportOptions): Promise<BackupResult> {
  const { dataDir, eventStoreUrl } = config
  await refuseUnfinishedRestore(dataDir)
  await refuseNewerData(dataDir)
  if (!(await exists(eventStoreUrl === undefined ? eventsFile(dataDir) : dataDir))) {
    throw new BackupProblem(`DATA_DIR: there is no ${eventStoreUrl === undefined ? 'log in ' : ''}${dataDir}`)
  }
  const events = await openEvents(config)
  try {
    return await backupWith(lineCopies(config, events), { ...options, dataDir })
  } finally {
    await events.close()
  }
}

export function lineCopies(config: Config, events: EventStore): StoreCopies {
  const named = noReferences()

  /** Appends the events that the file lacks. */
  async function copyLog({ data, onProgress }: BackupContext): Promise<LogReferences> {
    const end = await events.lastPosition()
    const lines = await openLines(join(data, LOG), 'a')
    try {
      for await (const event of events.readAll({ from: named.position })) {
        if (event.position > end) break
        addEvent(named, event)
        await lines.write(eventLine(event))
        if (named.events % EVENTS_PER_SLICE === 0) {
          onProgress({ step: 'log', done: event.position, total: end })
          await nextIteration()
        }
        if (event.position === end) break
      }
    } finally {
      await lines.close()
    }
    return named
  }

  return {
    format: EXPORT_FORMAT,
    files: [LOG, SECRETS, PROCESS_POSITIONS],
    copyBefore: (context) => copyProcesses(config, context),
    copyLog,
    copySecrets: (context, named) => copySecrets(config, context, named),
    erasedSince: (_context, { position }) => hasErasureAfter(events, position),
  }
}

/** Copies the positions of the processes before the log, so that they are not ahead of it. */
async function copyProcesses(config: Config, { data, onProgress }: BackupContext): Promise<void> {
  onProgress({ step: 'processes', done: 0, total: 0 })
  const lines = await openLines(join(data, PROCESS_POSITIONS), 'w')
  try {
    for (const line of await processesOf(config)) await lines.write(line)
  } finally {
    await lines.close()
  }
}

async function processesOf(config: Config): Promise<ProcessLine[]> {
  try {
    const positions = await withReadStore(config, 'views', async (readStore) => {
      const found: ProcessLine[] = []
      for (const process of PROCESSES) {
        const position = await processPosition(readStore, process)
        if (position !== undefined) found.push({ process, position })
      }
      return found
    })
    return positions ?? []
  } catch (error) {
    // Read models are optional: without their positions the processes react to all events again.
    if (error instanceof BrokenFile) return []
    throw error
  }
}

/** Copies the secrets, without those of tokens that are not in the copied log: a new token could get their ids. */
async function copySecrets(
  config: Config,
  { data, onProgress }: BackupContext,
  named: LogReferences,
): Promise<string[]> {
  onProgress({ step: 'secrets', done: 0, total: 0 })
  const lines = await openLines(join(data, SECRETS), 'w')
  try {
    const missing = await withReadStore(config, 'secrets', async (secrets) => {
      // MongoDB needs no tables.
      if (config.mongodbUrl === undefined) await secrets.prepare(secretCollections)
      for (const collection of secretCollections) {
        for await (const secret of secretsIn(secrets, collection)) {
          if (isNamed(secret.body, named.tokens)) await lines.write(secret)
        }
      }
      return await missingSecrets(secrets, named)
    })
    return missing ?? []
  } finally {
    await lines.close()
  }
}

async function* secretsIn(secrets: ReadStore, collection: AnyCollection): AsyncGenerator<SecretLine> {
  let after: string | undefined
  for (;;) {
    const range = { limit: SECRETS_PER_READ, ...(after !== undefined && { after }) }
    const found = await secrets.range(collection, range)
    for (const { id, body } of found) yield { collection: collection.name, id, body }
    after = found.at(-1)?.id
    if (found.length < SECRETS_PER_READ) return
  }
}

/** Whether the log names the token of a secret. Passwords have no token. */
const isNamed = (body: object, tokens: ReadonlySet<number>) =>
  !('tokenId' in body) || (typeof body.tokenId === 'number' && tokens.has(body.tokenId))

/** Opens a read store for `work`. Does nothing when the store does not exist. */
async function withReadStore<T>(
  config: Config,
  which: 'views' | 'secrets',
  work: (store: ReadStore) => Promise<T>,
): Promise<T | undefined> {
  const store = await openReadStore(config, which)
  if (store === undefined) return undefined
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

async function openReadStore(config: Config, which: 'views' | 'secrets'): Promise<ReadStore | undefined> {
  const { mongodbUrl, dataDir } = config
  if (mongodbUrl !== undefined) {
    const { readStore, secrets } = await openReadStores(config)
    const [wanted, other] = which === 'views' ? [readStore, secrets] : [secrets, readStore]
    await other.close()
    return wanted
  }
  if (which === 'secrets') {
    const file = secretsFile(dataDir)
    return (await exists(file)) ? openSqliteReadStore(file, 'FULL') : undefined
  }
  const file = viewsFile(dataDir)
  return (await exists(file)) ? withGenerations(openSqliteReadStore(file)).current : undefined
}
