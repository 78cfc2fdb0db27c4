/** `mergelog maintain`: repacks repositories now, with or without a running server. */
import { join } from 'node:path'
import { type Command, Option } from 'commander'
import { type MaintenanceProgress, maintainAll, repositoryCalled } from '../../commands/git/maintain-all.ts'
import { type Config, loadConfig } from '../../config.ts'
import { DataDirInUse, lockDataDir } from '../../data-lock.ts'
import { prepareLaunches } from '../../git/launcher.ts'
import { limitGitMemory } from '../../git/memory-limit.ts'
import { createDiskUsage } from '../../projections/disk-usage.ts'
import { createViews } from '../../projections/views.ts'
import { createTurns } from '../../turns.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openLog, openViews, requireLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { askToMaintain, authorizationOf, NoServer, serverUrl } from '../running-server.ts'
import { printable, styled } from '../terminal.ts'

const CREDENTIALS = 'MERGELOG_TOKEN or ADMIN_PASSWORD'

interface MaintainArguments {
  url?: string
  token?: string
  json?: true
}

/** A running server does it itself: it knows which repositories it is repacking already. */
async function* maintainAnywhere(
  repository: string | undefined,
  { url, token }: MaintainArguments,
): AsyncGenerator<MaintenanceProgress> {
  const config = loadConfig(process.env)
  const authorization = authorizationOf(token, config.adminPassword)
  if (url !== undefined) {
    if (authorization === undefined) throw new CommandFailed(`${CREDENTIALS} is needed; see --help`)
    yield* askToMaintain(url.replace(/\/+$/, ''), authorization, repository)
    return
  }
  // Check this before locking: the lock would leave a file in a mistyped directory.
  await requireLog(config)
  let unlock: () => void
  try {
    unlock = lockDataDir(config.dataDir)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    if (authorization === undefined) {
      throw new CommandFailed(`${error.message}; if it is a server, ${CREDENTIALS} is needed to ask it`)
    }
    try {
      yield* askToMaintain(serverUrl(config), authorization, repository)
    } catch (problem) {
      if (!(problem instanceof NoServer)) throw problem
      const others = 'another command, a server that is still starting, or one at another address (see --url)'
      throw new CommandFailed(`${error.message}, but ${problem.message}. It may be ${others}`, {
        cause: problem,
      })
    }
    return
  }
  try {
    yield* maintainHere(config, repository)
  } finally {
    unlock()
  }
}

/** Maintains in this process, which must have locked the data directory. */
async function* maintainHere(config: Config, name: string | undefined): AsyncGenerator<MaintenanceProgress> {
  limitGitMemory(config.gitMemoryBytes)
  await prepareLaunches()
  const startedAt = Date.now()
  const events = await openLog(config)
  try {
    const { current } = await openViews(config)
    try {
      const diskUsage = createDiskUsage(current)
      await diskUsage.prepare()
      const gitDir = join(config.dataDir, 'git')
      const views = createViews(current)
      const services = { config, events, turns: createTurns(), views, diskUsage, gitDir, startedAt }
      const one = name === undefined ? undefined : await repositoryCalled(services, name)
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
    .description('repack git repositories now; a running server does it and goes on serving them')
    .argument('[repository]', 'OWNER/REPO (default: all repositories)')
    .option('--url <url>', 'the running server (default: PUBLIC_URL, or http://HOST:PORT)')
    .addOption(
      new Option(
        '--token <token>',
        "a site admin's token for the running server (default: admin with ADMIN_PASSWORD)",
      ).env('MERGELOG_TOKEN'),
    )
    .option('--json', 'print the sizes before and after as JSON')
    .addHelpText('after', usage(examples, environment))
    .action(maintainCommand)
}
