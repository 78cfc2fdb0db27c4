/** `mergelog maintain`: repacks repositories now, with or without a running server. */
import { join } from 'node:path'
import type { Command } from 'commander'
import {
  type MaintenanceProgress,
  maintainAll,
  repositoryByFullName,
} from '../../commands/git/maintain-all.ts'
import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import { type Config, loadConfig } from '../../config/config.ts'
import { prepareLaunches } from '../../git/process/launcher.ts'
import { limitGitMemory } from '../../git/process/memory-limit.ts'
import { openPushJournal } from '../../git/push/push-journal.ts'
import { createDiskUsage } from '../../projections/installation/disk-usage.ts'
import { createViews } from '../../projections/views/views.ts'
import { recordNow } from '../../storage/steady-clock.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openLog, openViews } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { askToMaintain } from '../running-server.ts'
import { tokenOption, urlOption } from '../server-options.ts'
import { type ServerArguments, serverOrLocal } from '../server-or-local.ts'
import { printable, styled } from '../terminal.ts'

interface MaintainArguments extends ServerArguments {
  json?: true
}

/** Maintains through the running server, if any: it knows which repositories it is repacking. */
async function* maintainAnywhere(
  repository: string | undefined,
  server: ServerArguments,
): AsyncGenerator<MaintenanceProgress> {
  const config = loadConfig(process.env)
  yield* serverOrLocal(
    config,
    server,
    (url, authorization) => askToMaintain(url, authorization, repository),
    () => maintainHere(config, repository),
  )
}

/** Maintains in this process, which must have locked the data directory. */
async function* maintainHere(config: Config, name: string | undefined): AsyncGenerator<MaintenanceProgress> {
  limitGitMemory(config.gitMemoryBytes)
  await prepareLaunches()
  const startedAt = recordNow()
  const events = await openLog(config)
  try {
    const { current } = await openViews(config)
    try {
      const diskUsage = createDiskUsage(current)
      await diskUsage.prepare()
      const gitDir = join(config.dataDir, 'git')
      const views = createViews(current)
      const pushJournal = await openPushJournal(join(config.dataDir, 'pushes'))
      const runExclusive = createKeyedMutex()
      const services = { config, events, runExclusive, pushJournal, views, diskUsage, gitDir, startedAt }
      const one = name === undefined ? undefined : await repositoryByFullName(services, name)
      if (name !== undefined && one === undefined) throw new CommandFailed(`there is no repository ${name}`)
      yield* maintainAll(services, one, new AbortController().signal)
    } finally {
      await current.close()
    }
  } finally {
    await events.close()
  }
}

const MEBIBYTE = 1024 ** 2
const mebibytes = (bytes: number) => `${(bytes / MEBIBYTE).toFixed(1)} MiB`

async function maintainCommand(repository: string | undefined, options: MaintainArguments): Promise<void> {
  const maintained: Pick<MaintenanceProgress, 'repository' | 'bytes_before' | 'bytes_after'>[] = []
  await withProgressBar(async (onProgress) => {
    for await (const { step, done, total, ...one } of maintainAnywhere(repository, options)) {
      onProgress({ step: `${one.repository} (${step})`, done, total })
      if (step === 'done' && one.bytes_after !== undefined) maintained.push(one)
    }
  })
  if (options.json) {
    console.log(JSON.stringify({ maintained }))
    return
  }
  for (const { repository: name, bytes_before: before, bytes_after: after = 0 } of maintained) {
    const was = before === undefined ? '' : `, was ${mebibytes(before)}`
    console.log(`${styled('green', printable(name))} ${mebibytes(after)}${was}`)
  }
}

export function addMaintain(program: Command): void {
  const examples = ['mergelog maintain', 'mergelog maintain alice/app']
  const environment = ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD', ...STORE_SETTINGS] as const
  program
    .command('maintain')
    .description('repack git repositories now; a running server does it while it serves them')
    .argument('[repository]', 'OWNER/REPO (default: all repositories)')
    .addOption(urlOption())
    .addOption(tokenOption("a site admin's token"))
    .option('--json', 'print the sizes before and after as JSON')
    .addHelpText('after', usage(examples, environment))
    .action(maintainCommand)
}
