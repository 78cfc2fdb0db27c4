/** `mergelog import`: fills an empty installation of any kind from an export. */
import type { Command } from 'commander'
import { loadConfig } from '../../config/config.ts'
import { importExport } from '../../maintenance/transfer/import.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'
import { printRestored } from './restore.ts'

async function importCommand(directory: string, options: { json?: true }): Promise<void> {
  const config = loadConfig(process.env)
  const result = await withProgressBar((onProgress) => importExport({ directory, config, onProgress }))
  printRestored(
    result,
    `${styled('green', 'Imported')} the export of ${printable(result.createdAt)}`,
    options,
  )
}

export function addImport(program: Command): void {
  const examples = [
    'DATA_DIR=/srv/mergelog mergelog import /backups/move',
    "DATA_DIR=/srv/mergelog EVENTSTORE_URL='esdb://host:2113' mergelog import /backups/move",
  ]
  program
    .command('import')
    .description('fill an empty installation of any kind from an export, after checking every file')
    .argument('<directory>', 'the directory of the export')
    .option('--json', 'print what was imported as JSON')
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .addHelpText(
      'after',
      `
Stores that are not empty are refused and not changed. Until the import is complete, no server starts. After an
interruption, run it again: it continues. The first start builds the read models.`,
    )
    .action(importCommand)
}
