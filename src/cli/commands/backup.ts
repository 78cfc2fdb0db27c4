/** `mergelog backup`: a copy of the data directory as one moment left it, beside a running server or without one. */
import { constants, setPriority } from 'node:os'
import type { Command } from 'commander'
import { type BackupResult, backup } from '../../backup/backup.ts'
import { BackupProblem } from '../../backup/manifest.ts'
import { type Config, loadConfig } from '../../config.ts'
import { CommandFailed } from '../explain.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'

/** Only what lies in DATA_DIR can be copied as one moment left it. @throws CommandFailed */
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

/** Tells of what an operator can mend in one line. */
export function mendable(error: unknown): never {
  throw error instanceof BackupProblem ? new CommandFailed(error.message, { cause: error }) : error
}

const plural = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`

/** What a backup holds, as people read it. */
export function contents({
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
  // The server goes first.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  const result = await withProgressBar((onProgress) =>
    backup({ dataDir: config.dataDir, directory, onProgress }),
  ).catch(mendable)
  if (json) console.log(JSON.stringify(result))
  else console.log(`${styled('green', 'Backup')} in ${printable(result.directory)}\n${contents(result)}`)
  const { missing } = result
  if (missing.length === 0) return
  throw new CommandFailed(
    `the backup is made, but DATA_DIR lacks what the log names: ${missing.slice(0, 10).join(', ')}${missing.length > 10 ? ` and ${missing.length - 10} more` : ''}`,
  )
}

export function addBackup(program: Command): void {
  const command = program
    .command('backup')
    .description('copy log, read models, secrets, git and attachments, consistently; beside a running server')
    .argument('<directory>', 'where the backup comes to be; not there yet, or empty')
    .option('--json', 'print what the backup holds as JSON')
    .action(backupCommand)
  const examples = [
    'mergelog backup /backups/monday',
    'mergelog backup /backups/monday --json | jq .position',
  ]
  explainUse(command, examples, STORE_SETTINGS)
  command.addHelpText(
    'after',
    `
A backup has its name only when all of it is on disk. \`sha256sum -c SHA256SUMS\` in its directory checks it. The
exit code is 1 when there is no backup, and also when DATA_DIR itself lacks something that the log names: what is
there is then backed up, and what is not is told ("missing" in the JSON).`,
  )
}
