/** `mergelog restore`: fills an empty data directory from a backup. */
import type { Command } from 'commander'
import { restore } from '../../backup/restore.ts'
import { loadConfig } from '../../config.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'
import { contentsText, requireEmbeddedStores, rethrowForOperator } from './backup.ts'

async function restoreCommand(directory: string, { json }: { json?: true }): Promise<void> {
  const config = loadConfig(process.env)
  requireEmbeddedStores(config, 'restore')
  const result = await withProgressBar((onProgress) =>
    restore({ directory, dataDir: config.dataDir, onProgress }),
  ).catch(rethrowForOperator)
  if (json) console.log(JSON.stringify(result))
  else {
    const from = `the backup of ${printable(result.createdAt)}`
    console.log(
      `${styled('green', 'Restored')} ${from} to ${printable(result.dataDir)}\n${contentsText(result)}`,
    )
  }
}

export function addRestore(program: Command): void {
  const command = program
    .command('restore')
    .description('fill an empty DATA_DIR from a backup, after checking every file')
    .argument('<directory>', 'the directory of the backup')
    .option('--json', 'print what was restored as JSON')
    .action(restoreCommand)
  const examples = [
    'DATA_DIR=/srv/mergelog mergelog restore /backups/monday',
    'DATA_DIR=/srv/mergelog mergelog verify',
  ]
  explainUse(command, examples, STORE_SETTINGS)
}
