/** `mergelog verify`: checks the log and the read models, and prints the first difference. */
import { existsSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type Config, loadConfig } from '../../config/config.ts'
import { LOG_START } from '../../events/store/event-store.ts'
import type { CheckpointOptions } from '../../maintenance/verify/checkpoints.ts'
import { fileChecks } from '../../maintenance/verify/file-checks.ts'
import { asLogBroken, LogBroken } from '../../maintenance/verify/replay.ts'
import type { VerifyReport } from '../../maintenance/verify/report.ts'
import { verifyServer } from '../../maintenance/verify/verify.ts'
import { READ_MODELS } from '../../projections/views/views.ts'
import { eventsFile, viewsFile } from '../../server/stores.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import { checkpointArgument, verifierKeyArgument } from '../checkpoint-arguments.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openTexts, openViews, requireLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'

const STEPS = { log: 'log', views: 'read models' } as const

/** Opens the stores that exist. Creates nothing. */
async function openStores(config: Config) {
  const { dataDir, eventStoreUrl, mongodbUrl } = config
  const [logFile, documents] = [eventsFile(dataDir), viewsFile(dataDir)]
  await requireLog(config)
  // Check this first: opening an empty file would write to it.
  if (eventStoreUrl === undefined && isEmpty(logFile)) throw new BrokenFile(logFile, 'it is empty')
  const events = await openTexts(config)
  const files = eventStoreUrl === undefined ? { log: logFile } : {}
  if (mongodbUrl === undefined && (!existsSync(documents) || isEmpty(documents))) return { events, files }
  try {
    const { current: readStore } = await openViews(config)
    return { events, readStore, files: { ...files, ...(mongodbUrl === undefined && { views: documents }) } }
  } catch (error) {
    if (error instanceof BrokenFile) return { events, files, failure: error.message }
    await events.close()
    throw error
  }
}

const isEmpty = (file: string) => statSync(file).size === 0

interface Wanted {
  deep: boolean
  checkpoints: CheckpointOptions
}

/** @throws the signal's reason when it is aborted */
async function verify(signal: AbortSignal, { deep, checkpoints }: Wanted): Promise<VerifyReport> {
  const config = loadConfig(process.env)
  const { dataDir } = config
  const { events, readStore, files, failure } = await openStores(config)
  const ended = new AbortController()
  try {
    const report = await withProgressBar((onProgress) =>
      verifyServer({
        events: events.stored,
        keys: events.keys,
        ...(readStore && { readStore }),
        models: READ_MODELS,
        scratchDir: tmpdir(),
        // On a shared store, this machine may lack the files of the servers.
        ...(existsSync(join(dataDir, 'git')) && { dataFiles: { dataDir, deep } }),
        checkpoints,
        files: fileChecks(files, AbortSignal.any([signal, ended.signal])),
        onProgress: ({ phase, done, total }) => onProgress({ step: STEPS[phase], done, total }),
        signal,
      }),
    )
    return failure === undefined || !report.sound
      ? report
      : { ...report, sound: false, views: { ...report.views, failure } }
  } finally {
    ended.abort()
    await Promise.all([events.close(), readStore?.close()])
  }
}

/** Returns the report, also when the log can't be opened. */
async function verifyReport(signal: AbortSignal, wanted: Wanted): Promise<VerifyReport> {
  try {
    return await verify(signal, wanted)
  } catch (error) {
    const problem = asLogBroken(error)
    if (!(problem instanceof LogBroken)) throw error
    const models = READ_MODELS.map(({ name }) => ({
      name,
      state: 'not compared' as const,
      position: LOG_START,
    }))
    return {
      sound: false,
      log: {
        events: 0,
        soundUpTo: LOG_START,
        streams: 0,
        erased: 0,
        checkpoints: 0,
        difference: problem.problem,
      },
      views: { documents: 0, models },
    }
  }
}

/** Runs `work`. SIGINT or SIGTERM aborts it, and the process exits when `work` has ended. */
async function abortedBySignals<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stopping = new AbortController()
  let code: number | undefined
  const stop = (_: NodeJS.Signals, number: number) => {
    code ??= 128 + number
    stopping.abort()
  }
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, stop)
  try {
    return await work(stopping.signal)
  } finally {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, stop)
    if (code !== undefined) process.exit(code)
  }
}

/** Returns the first difference as text; undefined without one. */
function differenceIn({ log, views, files }: VerifyReport): string | undefined {
  if (log.difference !== undefined) {
    const { stream, revision, position, problem } = log.difference
    const where = [
      position === undefined ? [] : `position ${position}`,
      stream === undefined ? [] : `${stream}${revision === undefined ? '' : `@${revision}`}`,
    ].flat()
    const at = where.length === 0 ? '' : ` at ${where.join(', ')}`
    return `the log is not sound${at}: ${problem}. It is sound up to position ${log.soundUpTo} (${log.events} events); restore it from a backup`
  }
  if (log.rewritten !== undefined) {
    return `the hash chains of the log are sound, but it is not the log that was signed: ${log.rewritten}`
  }
  if (log.lostTexts !== undefined) {
    const lines = log.lostTexts.map(
      ({ stream, revision, position, problem }) => `position ${position}, ${stream}@${revision}: ${problem}`,
    )
    return `the log is sound, but the keys of ${lines.length} of its texts are lost; restore the secrets from a backup. ${lines.join('; ')}`
  }
  if (log.lost !== undefined) {
    const lines = log.lost.map(
      ({ stream, problem, repair = 'restore the log from a backup' }) =>
        `${stream}: ${problem}. Repair: ${repair}`,
    )
    return `the log lacks parts of ${lines.length} streams. ${lines.join('; ')}`
  }
  if (views.difference !== undefined) {
    const { collection, id, kind, field, stored, expected } = views.difference
    const what = kind === 'different' ? `${field ?? 'it'} is ${stored}, not ${expected}` : `it is ${kind}`
    return `the log is sound, but document ${id} of read model ${collection} is wrong: ${what}. "mergelog rebuild --model ${collection}" repairs it`
  }
  if (views.failure !== undefined) return views.failure
  const problems = files?.problems ?? []
  if (problems.length === 0) return undefined
  const lines = problems.map(({ path, problem }) => `${path}: ${problem}`)
  return `log and read models are sound, but ${lines.length === 1 ? 'a file differs' : 'files differ'} from the log; restore from a backup. ${lines.join('; ')}`
}

interface Options {
  json?: true
  deep?: boolean
  since?: string
  key?: string
}

async function verifyCommand({ json, deep = false, since: file, key: given }: Options): Promise<void> {
  const key = given === undefined ? undefined : await verifierKeyArgument(given)
  const since = file === undefined ? undefined : await checkpointArgument(file, key)
  const checkpoints = { ...(since && { since }), ...(key && { key }) }
  const report = await abortedBySignals((signal) => verifyReport(signal, { deep, checkpoints }))
  const { log, views, files } = report
  if (json) console.log(JSON.stringify(report))
  else if (report.sound) {
    console.log(`${styled('green', 'sound')}  ${log.events} events in ${log.streams} streams`)
    if (log.erased > 0) console.log(`       ${log.erased} ${log.erased === 1 ? 'text' : 'texts'} erased`)
    console.log(`       ${views.documents} documents of ${views.models.length} read models`)
    if (files !== undefined && files.files > 0) {
      console.log(`       ${files.files} attached and large files${deep ? ', the large ones read' : ''}`)
    }
    if (log.checkpoints > 0)
      console.log(
        `       ${log.checkpoints} signed ${log.checkpoints === 1 ? 'checkpoint agrees' : 'checkpoints agree'} with it`,
      )
    if (since !== undefined) {
      const checked = key === undefined ? ' (the signature was not checked: --key)' : ''
      console.log(
        `       it starts with the ${since.size} events of the checkpoint of ${printable(since.origin)}${checked}`,
      )
    }
    for (const { stream, revision } of log.others ?? []) {
      console.log(`       ${printable(stream)}@${revision} was written by another application and is ignored`)
    }
    for (const { name } of views.models.filter(({ state }) => state === 'not compared')) {
      console.log(`       ${name} could not be compared: this version has not built it yet`)
    }
  }
  const difference = differenceIn(report)
  if (difference !== undefined) throw new CommandFailed(printable(difference))
}

export function addVerify(program: Command): void {
  program
    .command('verify')
    .description(
      'recompute every hash of the log, replay and compare every read model; exit code 1 on a difference',
    )
    .option('--json', 'print the report as JSON')
    .option('--deep', 'read the large files (git LFS), and compare their hashes')
    .option(
      '--since <file>',
      'prove that the log only grew since this signed checkpoint (a file, or - for standard input)',
    )
    .option('--key <key>', 'check the signatures of checkpoints by this verifier key (or a file with it)')
    .addHelpText(
      'after',
      usage(
        [
          'mergelog verify',
          'mergelog verify --json | jq .log',
          'curl -s https://git.example.org/api/v1/log/checkpoint > checkpoint',
          'mergelog verify --since checkpoint --key log.pub',
        ],
        STORE_SETTINGS,
      ),
    )
    .action(verifyCommand)
}
