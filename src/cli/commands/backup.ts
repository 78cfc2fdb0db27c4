/** `mergelog backup`: a consistent copy of everything, with or without a running server. */
import { constants, setPriority } from 'node:os'
import type { Command } from 'commander'
import { type BackupResult, backup } from '../../backup/backup.ts'
import type { Progress } from '../../backup/context.ts'
import { type Config, loadConfig } from '../../config.ts'
import { exportAll } from '../../transfer/export.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'

/** Whether a store is a server. Then a backup is an export: only the files of DATA_DIR can be copied as they are. */
export const usesServer = ({ eventStoreUrl, mongodbUrl }: Config) =>
  eventStoreUrl !== undefined || mongodbUrl !== undefined

const plural = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`

/** The contents of a backup as text for people. */
export function contentsText({
  position,
  events,
  repositories,
  refs,
  attachments,
  files,
  bytes,
}: Omit<BackupResult, 'directory'>): string {
  return [
    `  log           ${plural(events, 'event')}, the last at position ${position}`,
    `  repositories  ${repositories}, with ${plural(refs, 'ref')}`,
    `  attachments   ${plural(attachments, 'file')}`,
    `  in all        ${plural(files, 'file')}, ${(bytes / 2 ** 20).toFixed(1)} MiB`,
  ].join('\n')
}

/** Makes a backup or an export and prints what is in it. @throws CommandFailed also when DATA_DIR lacks files */
export async function makeCopy(
  name: 'Backup' | 'Export',
  make: (onProgress: (progress: Progress) => void) => Promise<BackupResult>,
  { json }: { json?: true },
): Promise<void> {
  // The server has priority.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  const result = await withProgressBar(make)
  if (json) console.log(JSON.stringify(result))
  else console.log(`${styled('green', name)} in ${printable(result.directory)}\n${contentsText(result)}`)
  const { missing } = result
  if (missing.length === 0) return
  const more = missing.length > 10 ? ` and ${missing.length - 10} more` : ''
  const named = `${missing.slice(0, 10).join(', ')}${more}`
  throw new CommandFailed(
    `the ${name.toLowerCase()} is made, but DATA_DIR lacks files that the log names: ${named}`,
  )
}

async function backupCommand(directory: string, options: { json?: true }): Promise<void> {
  const config = loadConfig(process.env)
  const make = usesServer(config)
    ? (onProgress: (progress: Progress) => void) => exportAll({ config, directory, onProgress })
    : (onProgress: (progress: Progress) => void) => backup({ dataDir: config.dataDir, directory, onProgress })
  await makeCopy('Backup', make, options)
}

export function addBackup(program: Command): void {
  const examples = [
    'mergelog backup /backups/monday',
    'mergelog backup /backups/monday --json | jq .position',
  ]
  program
    .command('backup')
    .description('copy log, read models, secrets, git and attachments, consistently; beside a running server')
    .argument('<directory>', 'where to put the backup; new or empty')
    .option('--json', "print the backup's contents as JSON")
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .addHelpText(
      'after',
      `
The directory gets its final name only when the whole backup is on disk. To check a backup, run
\`sha256sum -c SHA256SUMS\` in its directory. The exit code is 1 when no backup was made. It is also 1 when DATA_DIR
lacks files that the log names: then the backup has everything else, and the missing files are printed ("missing"
in the JSON). With EVENTSTORE_URL or MONGODB_URL, the backup is what "mergelog export" makes, and "mergelog restore"
imports it.`,
    )
    .action(backupCommand)
}
