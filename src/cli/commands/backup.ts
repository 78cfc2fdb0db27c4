/** `mergelog backup`: a consistent copy of the data directory, with or without a running server. */
import { constants, setPriority } from 'node:os'
import type { Command } from 'commander'
import { type BackupResult, backup } from '../../backup/backup.ts'
import { BackupProblem } from '../../backup/manifest.ts'
import { type Config, loadConfig } from '../../config.ts'
import { CommandFailed } from '../explain.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'

/** Refuses external stores: only data in DATA_DIR can be copied consistently. @throws CommandFailed */
export function requireEmbeddedStores(config: Config, command: 'backup' | 'restore'): void {
  for (const [setting, url, server, tools] of [
    ['EVENTSTORE_URL', config.eventStoreUrl, 'EventStoreDB', 'its own backups'],
    ['MONGODB_URL', config.mongodbUrl, 'MongoDB', 'mongodump and mongorestore'],
  ] as const) {
    if (url === undefined) continue
    throw new CommandFailed(
      `${command} is for a server whose stores are all in DATA_DIR; ${setting} is set: ${server} has ${tools}`,
    )
  }
}

/** Rethrows an error. A problem that the operator can fix becomes a CommandFailed, which prints one line. */
export function rethrowForOperator(error: unknown): never {
  throw error instanceof BackupProblem ? new CommandFailed(error.message, { cause: error }) : error
}

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

async function backupCommand(directory: string, { json }: { json?: true }): Promise<void> {
  const config = loadConfig(process.env)
  requireEmbeddedStores(config, 'backup')
  // The server has priority.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  const result = await withProgressBar((onProgress) =>
    backup({ dataDir: config.dataDir, directory, onProgress }),
  ).catch(rethrowForOperator)
  if (json) console.log(JSON.stringify(result))
  else console.log(`${styled('green', 'Backup')} in ${printable(result.directory)}\n${contentsText(result)}`)
  const { missing } = result
  if (missing.length === 0) return
  throw new CommandFailed(
    `the backup is made, but DATA_DIR lacks files that the log names: ${missing.slice(0, 10).join(', ')}${missing.length > 10 ? ` and ${missing.length - 10} more` : ''}`,
  )
}

export function addBackup(program: Command): void {
  const command = program
    .command('backup')
    .description('copy log, read models, secrets, git and attachments, consistently; beside a running server')
    .argument('<directory>', 'where to put the backup; new or empty')
    .option('--json', "print the backup's contents as JSON")
    .action(backupCommand)
  const examples = [
    'mergelog backup /backups/monday',
    'mergelog backup /backups/monday --json | jq .position',
  ]
  explainUse(command, examples, STORE_SETTINGS)
  command.addHelpText(
    'after',
    `
The directory gets its final name only when the whole backup is on disk. To check a backup, run
\`sha256sum -c SHA256SUMS\` in its directory. The exit code is 1 when no backup was made. It is also 1 when DATA_DIR
lacks files that the log names: then the backup has everything else, and the missing files are printed ("missing"
in the JSON).`,
  )
}
