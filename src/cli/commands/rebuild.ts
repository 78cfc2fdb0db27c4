/** `mergelog rebuild`: read models made anew from the log, beside a running server or without one. */
import { type Command, Option } from 'commander'
import { pino } from 'pino'
import { type Config, loadConfig } from '../../config.ts'
import { DataDirInUse, lockDataDir } from '../../data-lock.ts'
import { createProjector } from '../../projections/projector.ts'
import type { ReadModel } from '../../projections/read-model.ts'
import { createRebuild, type RebuildProgress, SharedReadModels } from '../../projections/rebuild.ts'
import { modelsNamed, READ_MODELS, UnknownReadModel } from '../../projections/views.ts'
import { CommandFailed, WrongUse } from '../explain.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { openLog, openViews, requireLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { askToRebuild, authorizationOf, NoServer, serverUrl } from '../running-server.ts'
import { styled } from '../terminal.ts'

const CREDENTIALS = 'MERGELOG_TOKEN or ADMIN_PASSWORD'

interface Rebuilt {
  model: string
  events: number
}

interface RebuildArguments {
  model: string[]
  url?: string
  token?: string
  json?: true
}

/** Where a server runs, it does the work: it alone writes its read models. */
async function* rebuildAnywhere({ model, url, token }: RebuildArguments): AsyncGenerator<RebuildProgress> {
  const config = loadConfig(process.env)
  const models = chosen(model)
  const authorization = authorizationOf(token, config.adminPassword)
  if (url !== undefined) {
    if (authorization === undefined) throw new CommandFailed(`${CREDENTIALS} is needed; see --help`)
    yield* askToRebuild(url.replace(/\/+$/, ''), authorization, model)
    return
  }
  if (config.mongodbUrl !== undefined) throw new SharedReadModels()
  // Before the lock, which would leave its file in a directory that was mistyped.
  await requireLog(config)
  let unlock: () => void
  try {
    unlock = lockDataDir(config.dataDir)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    if (authorization === undefined) {
      throw new CommandFailed(`${error.message}; if it is a server, ${CREDENTIALS} is needed to ask it`)
    }
    yield* askOwner(error, serverUrl(config), authorization, model)
    return
  }
  try {
    yield* rebuildHere(config, models)
  } finally {
    unlock()
  }
}

/** Asks the server that has the data directory. @throws CommandFailed */
async function* askOwner(
  { message }: DataDirInUse,
  ...server: Parameters<typeof askToRebuild>
): AsyncGenerator<RebuildProgress> {
  try {
    yield* askToRebuild(...server)
  } catch (error) {
    if (!(error instanceof NoServer)) throw error
    const others = 'another command, a server that is still starting, or one at another address (see --url)'
    throw new CommandFailed(`${message}, but ${error.message}. It may be ${others}`, { cause: error })
  }
}

/** @throws WrongUse for a name that is not a read model's */
function chosen(names: readonly string[]): readonly ReadModel[] {
  try {
    return modelsNamed(names)
  } catch (error) {
    throw error instanceof UnknownReadModel ? new WrongUse(error.message, { cause: error }) : error
  }
}

/** In a data directory that is locked for this process. */
async function* rebuildHere(config: Config, models: readonly ReadModel[]): AsyncGenerator<RebuildProgress> {
  const events = await openLog(config)
  try {
    const generations = await openViews(config)
    const stopping = new AbortController()
    // What is printed on standard output is for who asked.
    const log = pino({ level: config.logLevel }, pino.destination(2))
    const projector = createProjector(log, events, generations.current, READ_MODELS)
    try {
      await projector.start()
      const { rebuild, freeSpares } = createRebuild({
        events,
        generations,
        projector,
        exchanged: () => {},
        signal: stopping.signal,
      })
      yield* rebuild(models)
      // Nobody reads them, and there is no later.
      await freeSpares(READ_MODELS)
    } finally {
      stopping.abort()
      await projector.stop()
      await generations.current.close()
    }
  } finally {
    await events.close()
  }
}

async function rebuildCommand(options: RebuildArguments): Promise<void> {
  const rebuilt: Rebuilt[] = []
  try {
    await withProgressBar(async (onProgress) => {
      for await (const { model: name, events, position, end, done } of rebuildAnywhere(options)) {
        onProgress({ step: name, done: position, total: end, events })
        if (done) rebuilt.push({ model: name, events })
      }
    })
  } catch (error) {
    throw error instanceof SharedReadModels ? new CommandFailed(error.message, { cause: error }) : error
  }
  if (options.json) console.log(JSON.stringify({ rebuilt }))
  else for (const { model, events } of rebuilt) console.log(`${styled('green', model)} from ${events} events`)
}

export function addRebuild(program: Command): void {
  const collect = (name: string, names: string[]) => [...names, name]
  const command = program
    .command('rebuild')
    .description(
      'make read models anew from the log; a running server goes on serving the old ones until then',
    )
    .option('--model <name>', 'only this one; can be given several times', collect, [])
    .option('--url <url>', 'the running server (default: PUBLIC_URL, or http://HOST:PORT)')
    .addOption(
      new Option(
        '--token <token>',
        "a site admin's token, to ask it (default: admin with ADMIN_PASSWORD)",
      ).env('MERGELOG_TOKEN'),
    )
    .option('--json', 'print what was rebuilt as JSON')
    .action(rebuildCommand)
  explainUse(
    command,
    ['mergelog rebuild', 'mergelog rebuild --model pulls --model issues'],
    ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD', ...STORE_SETTINGS],
  )
}
