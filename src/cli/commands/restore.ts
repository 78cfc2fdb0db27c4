/** `mergelog restore`: fills an installation from a backup. */
import { resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { type Config, loadConfig } from '../../config/config.ts'
import { existingDataIn } from '../../maintenance/backup/existing-data.ts'
import {
  BackupProblem,
  EXPORT_FORMAT,
  type Manifest,
  readManifest,
} from '../../maintenance/backup/manifest.ts'
import { replacementIn } from '../../maintenance/backup/replacement.ts'
import { type RestoreResult, restore } from '../../maintenance/backup/restore.ts'
import { isSeries, newestIn } from '../../maintenance/backup/series.ts'
import { importExport } from '../../maintenance/transfer/import.ts'
import { lockDataDir, STOP_THE_SERVER } from '../../storage/data-lock.ts'
import { exists } from '../../storage/disk.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'
import { contentsText, mebibytes, plural, usesServer } from './backup.ts'

/** Prints the restored or imported contents. */
export function printRestored(result: RestoreResult, what: string, { json }: { json?: true }): void {
  if (json) console.log(JSON.stringify(result))
  else console.log(`${what} to ${printable(result.dataDir)}\n${contentsText(result)}`)
  if (result.replaced === undefined || json) return
  console.log(`The replaced data is in ${printable(result.replaced)}; delete it when it is no longer needed`)
}

interface Options {
  json?: true
  yes?: true
}

/** @throws BackupProblem for a copy of a data directory when a store is a server */
async function restoreAny(config: Config, directory: string, options: Options): Promise<RestoreResult> {
  const manifest = await readManifest(directory)
  const { format } = manifest
  if (format === EXPORT_FORMAT) {
    return withProgressBar((onProgress) => importExport({ directory, config, onProgress }))
  }
  if (usesServer(config)) {
    throw new BackupProblem(
      `${directory} is a copy of a DATA_DIR with embedded stores: restore it without EVENTSTORE_URL and MONGODB_URL, then move it with "mergelog export" and "mergelog import"`,
    )
  }
  const { dataDir } = config
  const replace = await mayReplace(dataDir, manifest, options)
  return withProgressBar((onProgress) => restore({ directory, dataDir, replace, onProgress }))
}

/**
 * Whether the operator agrees to replace existing data, after a description of it; true without data.
 * @throws CommandFailed when the operator refuses or cannot be asked
 */
async function mayReplace(dataDir: string, backup: Manifest, { json, yes }: Options): Promise<boolean> {
  // An interrupted restore continues without a question.
  if (!(await exists(dataDir)) || (await replacementIn(dataDir)) !== undefined) return false
  const unlock = lockDataDir(dataDir, 'alone', STOP_THE_SERVER)
  const present = await existingDataIn(dataDir).finally(unlock)
  if (present === undefined) return false
  const { log, repositories, bytes } = present
  const logText = log === undefined ? 'no readable log' : plural(log.events, 'event')
  const has = `${logText}, ${plural(repositories, 'repository', 'repositories')}, ${mebibytes(bytes)}`
  const canAsk = process.stdin.isTTY && process.stderr.isTTY && !json
  if (!yes && !canAsk) {
    throw new CommandFailed(`DATA_DIR: ${dataDir} is not empty (it has ${has}); --yes replaces it`)
  }
  // Standard output may be JSON.
  console.error(`${styled('yellow', 'Replaces', process.stderr)} ${printable(dataDir)}
  now           ${has}${log?.first ? `; from ${log.first} to ${log.last}` : ''}
by the backup of ${printable(backup.createdAt)}
${contentsText(backup)}`)
  if (yes) return true
  const line = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await line
    .question('Replace it? The current data is moved to a subdirectory. [y/N] ')
    .finally(() => line.close())
  if (/^y(es)?$/i.test(answer.trim())) return true
  throw new CommandFailed('nothing was restored')
}

async function restoreCommand(given: string, options: Options): Promise<void> {
  const directory = (await isSeries(given)) ? await newestIn(resolve(given)) : given
  const result = await restoreAny(loadConfig(process.env), directory, options)
  printRestored(
    result,
    `${styled('green', 'Restored')} the backup of ${printable(result.createdAt)}`,
    options,
  )
}

export function addRestore(program: Command): void {
  const examples = [
    'DATA_DIR=/srv/mergelog mergelog restore /backups/monday',
    'DATA_DIR=/srv/mergelog mergelog verify',
    'DATA_DIR=/srv/mergelog mergelog restore /backups --yes --json',
  ]
  program
    .command('restore')
    .description('fill an installation from a backup, after checking every file')
    .argument('<directory>', 'the directory of the backup, or one with dated backups: the newest is used')
    .option('--yes', 'replace the contents of DATA_DIR without a question')
    .option('--json', 'print what was restored as JSON')
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .addHelpText(
      'after',
      `
When DATA_DIR has data, the command shows it and asks before it replaces it; without a terminal it needs --yes. Replaced
data is moved to DATA_DIR/replaced-…, so both must fit the disk. An export is only restored to an empty installation.
After an interrupted restore, no server starts: run it again.`,
    )
    .action(restoreCommand)
}
