/** `mergelog restore`: fills an empty installation from a backup. */
import type { Command } from 'commander'
import { BackupProblem, EXPORT_FORMAT, readManifest } from '../../backup/manifest.ts'
import { type RestoreResult, restore } from '../../backup/restore.ts'
import { type Config, loadConfig } from '../../config.ts'
import { importExport } from '../../transfer/import.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'
import { contentsText, usesServer } from './backup.ts'

/** Prints what was restored or imported. */
export function printRestored(result: RestoreResult, what: string, { json }: { json?: true }): void {
  if (json) console.log(JSON.stringify(result))
  else console.log(`${what} to ${printable(result.dataDir)}\n${contentsText(result)}`)
}

/** @throws BackupProblem when a copy of a data directory is to be restored to a server */
async function restoreAny(config: Config, directory: string): Promise<RestoreResult> {
  const { format } = await readManifest(directory)
  if (format === EXPORT_FORMAT) {
    return withProgressBar((onProgress) => importExport({ directory, config, onProgress }))
  }
  if (usesServer(config)) {
    throw new BackupProblem(
      `${directory} is a copy of a DATA_DIR with embedded stores: restore it without EVENTSTORE_URL and MONGODB_URL, then move it with "mergelog export" and "mergelog import"`,
    )
  }
  const { dataDir } = config
  return withProgressBar((onProgress) => restore({ directory, dataDir, onProgress }))
}

async function restoreCommand(directory: string, options: { json?: true }): Promise<void> {
  const result = await restoreAny(loadConfig(process.env), directory)
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
  ]
  program
    .command('restore')
    .description('fill an empty installation from a backup, after checking every file')
    .argument('<directory>', 'the directory of the backup')
    .option('--json', 'print what was restored as JSON')
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .action(restoreCommand)
}
