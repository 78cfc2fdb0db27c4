/** `mergelog verify`: whether log and read models are what they should be; the first difference if not. */
import { tmpdir } from 'node:os'
import type { Command } from 'commander'
import { loadConfig } from '../../config.ts'
import { eventsFile, openReadStores, viewsFile } from '../../stores.ts'
import { fileChecks } from '../../verify/file-checks.ts'
import { type VerifyReport, verifyServer } from '../../verify/verify.ts'
import { READ_MODELS } from '../../views.ts'
import { CommandFailed } from '../explain.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { openLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { printable, styled } from '../terminal.ts'

const STEPS = { log: 'log', views: 'read models' } as const

async function verify(): Promise<VerifyReport> {
  const config = loadConfig(process.env)
  const { dataDir, eventStoreUrl, mongodbUrl } = config
  const events = await openLog(config)
  const { readStore, secrets } = await openReadStores(config)
  const ended = new AbortController()
  try {
    return await withProgressBar((onProgress) =>
      verifyServer({
        events,
        readStore,
        models: READ_MODELS,
        scratchDir: tmpdir(),
        files: fileChecks(
          {
            ...(eventStoreUrl === undefined && { log: eventsFile(dataDir) }),
            ...(mongodbUrl === undefined && { views: viewsFile(dataDir) }),
          },
          ended.signal,
        ),
        onProgress: ({ phase, done, total }) => onProgress({ step: STEPS[phase], done, total }),
      }),
    )
  } finally {
    ended.abort()
    await Promise.all([events.close(), readStore.close(), secrets.close()])
  }
}

/** The first difference in words; undefined when there is none. */
function differenceIn({ log, views }: VerifyReport): string | undefined {
  if (log.difference !== undefined) {
    const { stream, revision, position, problem } = log.difference
    const where = [
      position === undefined ? [] : `position ${position}`,
      stream === undefined ? [] : `${stream}${revision === undefined ? '' : `@${revision}`}`,
    ].flat()
    const at = where.length === 0 ? '' : ` at ${where.join(', ')}`
    return `the log is not sound${at}: ${problem}. It is sound up to position ${log.soundUpTo} (${log.events} events)`
  }
  if (views.difference !== undefined) {
    const { collection, id, kind, field, stored, expected } = views.difference
    const what = kind === 'different' ? `${field ?? 'it'} is ${stored}, not ${expected}` : `it is ${kind}`
    return `the log is sound, but not document ${id} of read model ${collection}: ${what}. "mergelog rebuild --model ${collection}" makes it anew`
  }
  return views.failure
}

async function verifyCommand({ json }: { json?: true }): Promise<void> {
  const report = await verify()
  const { log, views } = report
  if (json) console.log(JSON.stringify(report))
  else if (report.sound) {
    const unlinked = log.unlinked === 0 ? '' : `, ${log.unlinked} of them without a hash`
    console.log(`${styled('green', 'sound')}  ${log.events} events in ${log.streams} streams${unlinked}`)
    console.log(`       ${views.documents} documents of ${views.models.length} read models`)
    for (const { name } of views.models.filter(({ state }) => state === 'not compared')) {
      console.log(`       ${name} could not be compared: it is not made by this version yet`)
    }
  }
  const difference = differenceIn(report)
  if (difference !== undefined) throw new CommandFailed(printable(difference))
}

export function addVerify(program: Command): void {
  const command = program
    .command('verify')
    .description(
      'recompute every hash of the log, replay every read model and compare; exit code 1 if not the same',
    )
    .option('--json', 'print the report as JSON')
    .action(verifyCommand)
  explainUse(command, ['mergelog verify', 'mergelog verify --json | jq .log'], STORE_SETTINGS)
}
