/** `mergelog export`: a copy of everything that can be imported into an installation of any kind. */
import type { Command } from 'commander'
import { loadConfig } from '../../config/config.ts'
import { exportAll } from '../../maintenance/transfer/export.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { makeCopy } from './backup.ts'

async function exportCommand(directory: string, options: { json?: true }): Promise<void> {
  const config = loadConfig(process.env)
  await makeCopy('Export', (onProgress) => exportAll({ config, directory, onProgress }), options)
}

export function addExport(program: Command): void {
  const examples = ['mergelog export /backups/move', 'head -n 1 /backups/move/data/log.ndjson | jq .type']
  program
    .command('export')
    .description(
      'copy everything, to import it into an installation of any kind; consistent, beside running servers',
    )
    .argument('<directory>', 'where to put the export; new or empty')
    .option('--json', "print the export's contents as JSON")
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .addHelpText(
      'after',
      `
The log and the secrets are files of JSON lines, with a line for each event. The directory gets its final name only
when the whole export is on disk. To check it, run \`sha256sum -c SHA256SUMS\` in it. Exit codes are those of "mergelog
backup".`,
    )
    .action(exportCommand)
}
