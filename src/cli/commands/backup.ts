/** `mergelog backup`: a consistent copy of everything, with or without a running server. */
import { constants, setPriority } from 'node:os'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Config, loadConfig } from '../../config/config.ts'
import { type BackupOptions, type BackupResult, backup } from '../../maintenance/backup/backup.ts'
import { checkBackups } from '../../maintenance/backup/check.ts'
import type { Progress } from '../../maintenance/backup/context.ts'
import type { Manifest } from '../../maintenance/backup/manifest.ts'
import { nextInSeries, type SeriesResult } from '../../maintenance/backup/series.ts'
import { exportAll } from '../../maintenance/transfer/export.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'

const MAX_KEEP = 10_000

/** Whether a store is a server. Then a backup is an export: only files of DATA_DIR can be copied. */
export const usesServer = ({ eventStoreUrl, mongodbUrl }: Config) =>
  eventStoreUrl !== undefined || mongodbUrl !== undefined

export const mebibytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`

export const plural = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`

/** The contents of a backup as text for people. */
export function contentsText({
  position,
  events,
  repositories,
  refs,
  attachments,
  files,
  bytes,
}: Omit<Manifest, 'format' | 'sums'>): string {
  return [
    `  log           ${plural(events, 'event')}, the last at position ${position}`,
    `  repositories  ${repositories}, with ${plural(refs, 'ref')}`,
    `  attachments   ${plural(attachments, 'file')}`,
    `  in all        ${plural(files, 'file')}, ${mebibytes(bytes)}`,
  ].join('\n')
}

/** Creates a backup or an export and prints its contents. @throws CommandFailed also when DATA_DIR lacks files */
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
  requireNothingMissing(name, result)
}

function requireNothingMissing(name: 'Backup' | 'Export', { missing }: BackupResult): void {
  if (missing.length === 0) return
  throw new CommandFailed(
    `the ${name.toLowerCase()} is written, but DATA_DIR lacks files that the log names: ${firstOf(missing)}`,
  )
}

function firstOf(names: readonly string[]): string {
  const more = names.length > 10 ? ` and ${names.length - 10} more` : ''
  return `${names.slice(0, 10).join(', ')}${more}`
}

interface Options {
  json?: true
  keep?: number
  check?: true
  quiet?: true
}

async function backupCommand(directory: string, options: Options): Promise<void> {
  if (options.check) return await checkCommand(directory, options)
  const config = loadConfig(process.env)
  const { dataDir } = config
  const make = (to: Pick<BackupOptions, 'directory' | 'series' | 'onProgress'>) =>
    usesServer(config) ? exportAll({ config, ...to }) : backup({ dataDir, ...to })
  const { keep } = options
  if (keep === undefined) {
    await makeCopy('Backup', (onProgress) => make({ directory, onProgress }), options)
    return
  }
  // The server has priority.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  const result = await withProgressBar((onProgress) =>
    nextInSeries({
      seriesDir: directory,
      dataDir,
      keep,
      make: (one, series) => make({ directory: one, series, onProgress }),
    }),
  )
  if (options.json) console.log(JSON.stringify(result))
  else if (!options.quiet) console.log(seriesLine(result))
  requireSound(result)
}

/** One line, for the mail of cron and for journals. */
function seriesLine({
  directory,
  events,
  repositories,
  files,
  bytes,
  series,
  kept,
  removed,
}: SeriesResult): string {
  const { linkedFiles, linkedBytes } = series ?? { linkedFiles: 0, linkedBytes: 0 }
  const contents = `${plural(events, 'event')}, ${plural(repositories, 'repository', 'repositories')}`
  const size = `${plural(files, 'file')} with ${mebibytes(bytes)}, ${files - linkedFiles} of them new with ${mebibytes(bytes - linkedBytes)}`
  const others = `${plural(kept.length, 'backup')} kept, ${removed.length} removed`
  return `${styled('green', 'Backup')} in ${printable(directory)}: ${contents}; ${size}; ${others}`
}

/** @throws CommandFailed when files are missing, or earlier backups are damaged */
function requireSound(result: SeriesResult): void {
  const { damaged, missing, unusable } = result
  if (damaged.length > 0) {
    throw new CommandFailed(
      `the backup is complete, with new copies of files that are damaged in the previous one; no backup was removed; check all of them with "mergelog backup --check": ${firstOf(damaged)}`,
    )
  }
  if (missing.length > 0) {
    throw new CommandFailed(
      `the backup is complete except for files that DATA_DIR lacks, so no backup was removed: ${firstOf(missing)}`,
    )
  }
  if (unusable.length === 0) return
  throw new CommandFailed(
    `the backup is written, but other backups are damaged or of a newer version, and were not removed: ${firstOf(unusable)}`,
  )
}

async function checkCommand(directory: string, { json, quiet }: Options): Promise<void> {
  const checked = await withProgressBar((onProgress) => checkBackups(directory, onProgress))
  if (json) console.log(JSON.stringify({ backups: checked }))
  for (const { directory, files, bytes, problems } of json ? [] : checked) {
    const name = printable(directory)
    if (problems.length > 0) console.log(`${styled('red', 'damaged')} ${name}\n  ${problems.join('\n  ')}`)
    else if (!quiet)
      console.log(`${styled('green', 'sound')} ${name}: ${plural(files, 'file')}, ${mebibytes(bytes)}`)
  }
  const damaged = checked.filter(({ problems }) => problems.length > 0).length
  if (damaged > 0)
    throw new CommandFailed(`${plural(damaged, 'backup')} of ${checked.length} cannot be restored`)
}

/** Parses the number of backups to keep. @throws InvalidArgumentError */
function readKeep(text: string): number {
  const keep = Number(text)
  if (/^\d+$/.test(text) && keep >= 1 && keep <= MAX_KEEP) return keep
  throw new InvalidArgumentError(`It must be a number from 1 to ${MAX_KEEP}.`)
}

export function addBackup(program: Command): void {
  const examples = [
    'mergelog backup /backups/monday',
    'mergelog backup /backups/monday --json | jq .position',
    'mergelog backup --keep 7 /backups',
    'mergelog backup --check /backups',
  ]
  program
    .command('backup')
    .description('copy log, read models, secrets, git and attachments consistently, also while a server runs')
    .argument(
      '<directory>',
      'the new or empty directory of the backup; with --keep, the directory of all backups',
    )
    .option(
      '--keep <n>',
      'create a backup in the directory, named for its time, and keep the n newest',
      readKeep,
    )
    .addOption(
      new Option(
        '--check',
        'create no backup: check every file of a backup, or of all in the directory',
      ).conflicts('keep'),
    )
    .option('--json', "print the backup's contents as JSON")
    .option('--quiet', 'with --keep or --check: print only problems')
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .addHelpText(
      'after',
      `
The directory gets its final name only when the whole backup is on disk. To check a backup, run
\`sha256sum -c SHA256SUMS\` in its directory. The exit code is 1 when there is no backup, or when DATA_DIR lacks files
that the log names: then the backup has everything else, and the missing files are printed ("missing" in the JSON).
With EVENTSTORE_URL or MONGODB_URL, the backup is an export as of "mergelog export", and "mergelog restore" imports it.

With --keep, unchanged git objects and attachments are hard links to the previous backup, so only new ones take space.
Each run reads a sixteenth of them again, and replaces damaged copies. Other files in the directory are not touched.
When the new backup lacks files, or found damage, no older one is removed, and the exit code is 1.`,
    )
    .action(backupCommand)
}
